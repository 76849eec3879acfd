//! A model in stages whose leader is an emulated GPU: steps in parts leave behind what whole steps do, states too.

use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_emu::Emu;
use lamina_fixtures::{Models, tokens};
use lamina_gpu::Gpu;
use lamina_plan::{
    Backend, BackendWeight, Batch, KvType, Limits, PAGE_LEN, Plan, Runner, Select, SeqPlace, StagePlan, Step,
    WeightSpec, emit, stage_borders,
};
use lamina_ranks::{RankPart, RankStage, StagedStep, follow, greet, join};
use lamina_store::Checkpoint;
use std::{net::TcpListener, path::Path, thread};

/// Rows of the first step: enough for parts.
const ROWS: usize = 150;

/// What is run of a model.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    Leader,
    Rank,
}

/// A part of the model at `path` on an emulated GPU, with the whole plan and the stage.
fn part(path: &Path, part: Part) -> (Runner, Plan, Option<StagePlan>) {
    let checkpoint = Checkpoint::open(path).expect("a model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let whole = emit(&spec, &|name| weights.has(name));
    let borders = stage_borders(&whole);
    let theirs = borders[borders.len() / 2]..borders[borders.len() - 1];
    let stage = match part {
        Part::All => None,
        Part::Leader => Some(StagePlan::around(&whole, theirs)),
        Part::Rank => Some(StagePlan::between(&whole, theirs)),
    };
    let plan = stage.as_ref().map_or(&whole, |stage| &stage.plan).clone();
    let backend: Box<dyn Backend> = Gpu::new(Emu::default()).into();
    let upload = |w: &WeightSpec| -> BackendWeight {
        let (rows, cols) = w.kind.shape();
        let elsewhere = || Tensor::from_f32(&w.name, 1, 1, &[0.0]);
        let tensor =
            if w.is_elsewhere() { elsewhere() } else { weights.get(&w.name, rows, cols).expect("a weight") };
        backend.upload(w, &tensor).expect("uploads")
    };
    let uploaded = plan.weights.iter().map(upload).collect();
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![16; groups], vec![KvType::F16.into(); groups]);
    let limits = Limits { rows: 192, selected: 4, logits: 4, pages, states: 4, kv };
    (Runner::new(backend, plan, uploaded, limits).expect("a machine"), whole, stage)
}

/// The model in two stages, the second one behind a connection.
fn staged(path: &Path) -> StagedStep {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, served) = (listener.local_addr().expect("an address").to_string(), path.to_owned());
    thread::spawn(move || {
        let (mut runner, _, stage) = part(&served, Part::Rank);
        let line = greet(listener.accept().expect("a leader").0, None, None).expect("meets");
        follow(&line, None, &mut runner, &RankPart::Stage(stage.expect("a stage")))
    });
    let (own, whole, stage) = part(path, Part::Leader);
    let (_, _, theirs) = part(path, Part::Rank);
    let line = join(&address, None).expect("meets");
    let sizes = vec![0; whole.kv.groups.len()];
    let rank = RankStage::new(line, &address, &theirs.expect("a stage"), sizes, 0);
    StagedStep::new(whole, own, stage.expect("a stage"), vec![rank], false)
}

/// Bits of the logits behind a prompt that leaves another state than it began with, and behind one more token.
pub fn told(step: &mut dyn Step) -> Vec<Vec<u32>> {
    let groups = step.plan().kv.groups.len();
    let pages = vec![(0..(ROWS / PAGE_LEN + 1) as u32).collect::<Vec<_>>(); groups];
    let text = tokens(ROWS as u32 + 1);
    let place =
        |state, next| SeqPlace { pages: pages.clone(), state, next_state: next, ..SeqPlace::default() };
    let mut batch = Batch::default();
    batch.copies.push(lamina_plan::batch::Copy::State { from: None, to: 0 });
    batch.push(&text[..ROWS], 0, place(0, Some(1)), Select::Last);
    let mut next = Batch::default();
    next.push(&text[ROWS..], ROWS, place(1, None), Select::Last);
    let logits = |batch: &Batch, step: &mut dyn Step| {
        let mut row = vec![];
        step.run(batch).expect("runs").logits(0, &mut row).expect("logits");
        row.into_iter().map(f32::to_bits).collect()
    };
    vec![logits(&batch, step), logits(&next, step)]
}

#[test]
fn a_leader_on_a_gpu_takes_steps_in_parts() {
    let models = Models::new();
    for name in ["qwen3-next", "llama"] {
        let path = models.folder(name);
        let whole = told(&mut part(&path, Part::All).0);
        assert!(told(&mut staged(&path)) == whole, "{name}");
    }
}
