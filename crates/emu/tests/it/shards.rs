//! A model in shards on emulated GPUs: columns go through the host's memory, and bits are those of one device.

use crate::stages::told;
use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_emu::Emu;
use lamina_fixtures::Models;
use lamina_gpu::Gpu;
use lamina_plan::{
    Backend, BackendWeight, Batch, KvType, Limits, Plan, Runner, Select, SeqPlace, ShardCaches, ShardPlan,
    Step, WeightKind, WeightSpec, emit,
};
use lamina_ranks::{MemoryRank, RankLine, RankPart, RankShard, ShardPage, ShardedStep, follow, greet, join};
use lamina_store::Checkpoint;
use std::{net::TcpListener, path::Path, thread};

const RANKS: usize = 2;

/// What rank `rank` runs of the model at `path`, or all of it, with the whole plan.
fn part(path: &Path, rank: Option<usize>) -> (Runner, Plan, Option<ShardPlan>) {
    let checkpoint = Checkpoint::open(path).expect("a model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let whole = emit(&spec, &|name| weights.has(name));
    let shard = rank.map(|rank| ShardPlan::of(&whole, rank, RANKS, ShardCaches::Whole));
    let plan = shard.as_ref().map_or(&whole, |shard| &shard.plan).clone();
    let backend: Box<dyn Backend> = Gpu::new(Emu::default()).into();
    let tensor = |spec: &WeightSpec| -> Tensor {
        let (rows, cols) = spec.kind.shape();
        weights.get(&spec.name, rows, cols).expect("a weight")
    };
    let upload = |(i, w): (usize, &WeightSpec)| -> BackendWeight {
        let some = shard.as_ref().and_then(|shard| shard.weights[i].clone());
        let tensor = some.map_or_else(|| tensor(w), |some| tensor(&some.whole).slice(some.rows));
        assert!(!matches!(w.kind, WeightKind::Vector { .. }) || tensor.rows() == 1);
        backend.upload(w, &tensor).expect("uploads")
    };
    let uploaded = plan.weights.iter().enumerate().map(upload).collect();
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![16; groups], vec![KvType::F16.into(); groups]);
    let limits = Limits { rows: 192, selected: 4, logits: 4, pages, states: 4, kv };
    (Runner::new(backend, plan, uploaded, limits).expect("a machine"), whole, shard)
}

#[test]
fn shards_on_gpus_have_the_bits_of_one() {
    let models = Models::new();
    for name in ["llama", "gemma2"] {
        let path = models.folder(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, served) = (listener.local_addr().expect("an address").to_string(), path.clone());
        thread::spawn(move || {
            let (mut runner, _, shard) = part(&served, Some(1));
            let line = greet(listener.accept().expect("a leader").0, None, None).expect("meets");
            follow(&line, None, &mut runner, &RankPart::Shard(shard.expect("a shard")))
        });
        let (own, plan, shard) = part(&path, Some(0));
        let rank = RankShard::new(join(&address, None).expect("meets"), &address);
        let pages = vec![ShardPage::default(); plan.kv.groups.len()];
        let mut step = ShardedStep::new(plan, (own, shard.expect("a shard")), (vec![rank], None), pages);
        assert!(told(&mut step) == told(&mut part(&path, None).0), "{name}");
    }
}

/// A leader of the model at `path` whose rank is a thread of this process, with the model at `theirs`.
fn beside_a_thread(path: &Path, theirs: &Path) -> ShardedStep {
    let (line, other) = RankLine::pair().expect("a connection");
    let mut group = MemoryRank::group(RANKS);
    let (memory, served) = (group.pop(), theirs.to_owned());
    let rank = thread::spawn(move || {
        let (mut runner, _, shard) = part(&served, Some(1));
        follow(&other, memory, &mut runner, &RankPart::Shard(shard.expect("a shard"))).expect_err("it ends");
    });
    let (own, plan, shard) = part(path, Some(0));
    let rank = RankShard::new(line.of_thread(rank), "1 of this process");
    let pages = vec![ShardPage::default(); plan.kv.groups.len()];
    ShardedStep::new(plan, (own, shard.expect("a shard")), (vec![rank], group.pop()), pages)
}

#[test]
fn gpus_of_one_process_have_the_bits_of_one() {
    let models = Models::new();
    let path = models.folder("llama");
    assert!(told(&mut beside_a_thread(&path, &path)) == told(&mut part(&path, None).0));
}

/// A rank that cannot go on says why to who waits for it, and nobody waits for ever: neither the leader, nor who drops it.
#[test]
fn a_thread_that_fails_is_named() {
    let models = Models::new();
    let mut step = beside_a_thread(&models.folder("llama"), &models.folder("gemma2"));
    let groups = step.plan().kv.groups.len();
    let place = SeqPlace { pages: vec![vec![0]; groups], ..SeqPlace::default() };
    let mut batch = Batch::default();
    batch.push(&[1, 2, 3], 0, place, Select::Last);
    let mut failed = || step.run(&batch).err().expect("fails").to_string();
    let (first, second) = (failed(), failed());
    assert!(first.contains("rank 1 of this process"), "{first}");
    assert!(second.contains("rank 1 of this process"), "it stays lost: {second}");
}
