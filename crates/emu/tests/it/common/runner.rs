//! Models on a backend, without an engine.

use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_plan::{
    Backend, Batch, KvType, Limits, Rows, Runner, Select, SeqPlace, Step, Watch, WeightSpec, emit,
};
use lamina_store::Checkpoint;
use std::path::Path;

/// `Once upon a time`, and the same with how the built-in model goes on.
pub const ONCE: [&[u32]; 2] = [
    &[0, 452, 474, 259, 403],
    &[0, 452, 474, 259, 403, 12, 404, 276, 259, 375, 428, 625, 558, 14, 325, 614, 268, 380, 720],
];
/// Pages of each sequence.
const PAGES: u32 = 8;

/// A sequence after some greedy tokens.
#[derive(Debug, PartialEq)]
pub struct Told {
    /// The prompt, and what was chosen behind it.
    pub text: Vec<u32>,
    /// Bits of the logits of every step.
    pub bits: Vec<Vec<u32>>,
}

/// The model at `path` on `backend`, as float32 where `plain`.
pub fn runner(path: &Path, backend: impl Into<Box<dyn Backend>>, kv_type: KvType, plain: bool) -> Runner {
    let backend = backend.into();
    let checkpoint = Checkpoint::open(path).expect("a model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    assert_eq!(backend.refuses(&plan), None);
    let upload = |w: &WeightSpec| {
        let (rows, cols) = w.kind.shape();
        let stored = weights.get(&w.name, rows, cols).expect("a weight");
        let float = || Tensor::from_f32(&w.name, rows, cols, &stored.to_f32().expect("decodes"));
        backend.upload(w, &if plain { float() } else { stored.clone() }).expect("uploads")
    };
    let uploaded = plan.weights.iter().map(upload).collect();
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![3 * PAGES as usize; groups], vec![kv_type.into(); groups]);
    let limits = Limits { rows: 64, selected: 3, logits: 3, pages, states: 0, kv };
    Runner::new(backend, plan, uploaded, limits).expect("a machine")
}

/// Goes on with `prompts` side by side for `tokens` greedy tokens; prompts are read in chunks of at most `chunk` rows.
pub fn tell(runner: Runner, prompts: &[&[u32]], tokens: usize, chunk: usize) -> Vec<Told> {
    tell_watched(runner, prompts, tokens, chunk, None)
}

/// [`tell`], with somebody who looks on.
pub fn tell_watched(
    mut runner: Runner,
    prompts: &[&[u32]],
    tokens: usize,
    chunk: usize,
    mut watch: Option<&mut dyn Watch>,
) -> Vec<Told> {
    let mut all: Vec<Told> = prompts.iter().map(|p| Told { text: p.to_vec(), bits: vec![] }).collect();
    let mut done = vec![0; prompts.len()];
    while all.iter().zip(prompts).any(|(told, prompt)| told.text.len() < prompt.len() + tokens) {
        let batch = batch(&runner, &all, &done, prompts, chunk);
        let ticket = match &mut watch {
            Some(watch) => runner.submit_watched(&batch, *watch),
            None => runner.submit(&batch),
        };
        let rows = runner.wait(ticket.expect("a step")).expect("its results");
        go_on(rows, &mut all, &mut done, chunk);
    }
    all.iter_mut().zip(prompts).for_each(|(told, prompt)| told.text.truncate(prompt.len() + tokens));
    all.iter_mut().for_each(|told| told.bits.truncate(tokens));
    all
}

/// The next rows of each sequence.
fn batch(runner: &Runner, all: &[Told], done: &[usize], prompts: &[&[u32]], chunk: usize) -> Batch {
    let groups = runner.plan().kv.groups.len();
    let mut batch = Batch::default();
    for (s, told) in all.iter().enumerate() {
        let end = told.text.len().min(done[s] + chunk);
        let first = s as u32 * PAGES;
        let pages = vec![(first..first + PAGES).collect(); groups];
        let place = SeqPlace { pages, prompt_len: prompts[s].len() as u32, ..SeqPlace::default() };
        batch.push(&told.text[done[s]..end], done[s], place, Select::Last);
    }
    batch
}

/// Chooses the likeliest token of each sequence whose rows have all been read.
fn go_on(rows: &dyn Rows, all: &mut [Told], done: &mut [usize], chunk: usize) {
    for (s, told) in all.iter_mut().enumerate() {
        done[s] = told.text.len().min(done[s] + chunk);
        if done[s] < told.text.len() {
            continue;
        }
        let mut logits = vec![];
        rows.logits(s, &mut logits).expect("logits");
        told.bits.push(logits.iter().map(|v| v.to_bits()).collect());
        told.text.push(rows.argmax(s).expect("a token").0);
    }
}
