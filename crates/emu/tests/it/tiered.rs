//! The built-in model divided between an emulated GPU and the CPU: the CPU's greedy text, and bits that depend on no batch.

use crate::common::runner::{ONCE, Told, runner, tell};
use crate::on_disk::OnDisk;
use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_cpu::Cpu;
use lamina_disk::ReaderKind;
use lamina_emu::Emu;
use lamina_fixtures::{Models, packaged, tokens};
use lamina_gpu::Gpu;
use lamina_plan::{Backend, KvType, Limits, Plan, Runner, WeightSpec, emit};
use lamina_store::Checkpoint;
use lamina_stream::{DeviceHomes, TierSide, Tiered};
use std::path::Path;

fn plan(path: &Path) -> Plan {
    opened(path).0
}

/// A plan, and its weights as float32.
fn opened(path: &Path) -> (Plan, Vec<Tensor>) {
    let checkpoint = Checkpoint::open(path).expect("a model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    let float = |w: &WeightSpec| {
        let (rows, cols) = w.kind.shape();
        let stored = weights.get(&w.name, rows, cols).expect("a weight");
        Tensor::from_f32(&w.name, rows, cols, &stored.to_f32().expect("decodes"))
    };
    let tensors = plan.weights.iter().map(float).collect();
    (plan, tensors)
}

fn cpu() -> Cpu {
    Cpu::new(1).expect("a CPU")
}

fn story(backend: impl Into<Box<dyn Backend>>, chunk: usize) -> Vec<Told> {
    tell(runner(&packaged(), backend, KvType::F16, true), &ONCE, 40, chunk)
}

/// What of a weight's name, and of the cache, lies on the device.
type OnDevice = fn(&str) -> bool;

#[test]
fn the_text_is_that_of_the_cpu() {
    let plan = plan(&packaged());
    let want = story(cpu(), 64);
    let side = |on_device: bool| if on_device { TierSide::Device } else { TierSide::Host };
    let none: OnDevice = |_| false;
    let divisions: [(&str, OnDevice, OnDevice, OnDevice); 6] = [
        ("attention on the device", |name| name.contains("attn"), |_| true, none),
        ("products of rows on the device", |name| name.contains("ffn"), |_| false, none),
        ("the first layer on the device", |name| name.starts_with("blk.0."), |kv| kv == "0", none),
        ("the cache on the host", |_| true, |_| false, none),
        ("products of rows are sent", |_| true, |_| true, |name| name.contains("ffn")),
        ("half is on the host, and all else is sent", |name| !name.contains("ffn"), |_| true, |_| true),
    ];
    for (name, weights, layers, sent) in divisions {
        let device = Emu::default();
        let homes = DeviceHomes::of(&plan, &|w| side(weights(&plan.weight(w).name)), &|kv| {
            side(layers(&kv.to_string()))
        });
        let homes = homes.expect("a division").sending(&plan, &|w| sent(&plan.weight(w).name));
        let backend = || Tiered::new(Gpu::new(device.clone()), cpu(), homes.clone());
        let told = story(backend(), 64);
        let texts = |told: &[Told]| told.iter().map(|t| t.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&told), texts(&want), "{name}");
        assert!(device.replays() > 30, "{name}: {} replays", device.replays());
        assert!(told == story(backend(), 5), "{name}: bits depend on how prompts are cut");
    }
}

/// Experts that are sent as rows choose them give the bits of experts that stay on the device; so do those that are read
/// from disk first, however few are in memory.
#[test]
fn experts_are_sent_as_rows_choose_them() {
    let models = Models::new();
    let folder = models.folder("mixtral");
    let (plan, tensors) = opened(&folder);
    let text = tokens(9);
    let device = |sent: bool| {
        let homes = DeviceHomes::of(&plan, &|_| TierSide::Device, &|_| TierSide::Device);
        let homes = homes.expect("a division");
        let homes = homes.sending(&plan, &|w| sent && plan.weight(w).name.contains("_exps"));
        Tiered::new(Gpu::new(Emu::default()), cpu(), homes)
    };
    let prompts = [&text[..5], &text];
    let want = tell(runner(&folder, device(false), KvType::F16, true), &prompts, 4, 4);
    assert!(tell(runner(&folder, device(true), KvType::F16, true), &prompts, 4, 4) == want);
    let root = tempfile::tempdir().expect("a folder");
    let on_disk = OnDisk { plan: &plan, tensors: &tensors, root: root.path() };
    for (slots, chunk) in [(1, 4), (9, 4), (1 << 10, 9)] {
        let reader = ReaderKind::Threads.start(2).expect("threads");
        let groups = plan.kv.groups.len();
        let (pages, kv) = (vec![24; groups], vec![KvType::F16.into(); groups]);
        let limits = Limits { rows: 64, selected: 3, logits: 3, pages, states: 0, kv };
        let (machine, steps) = on_disk.streamed(device(true), &|_| true, (slots, reader), &limits);
        let runner = Runner::on(machine, steps, limits);
        assert!(tell(runner, &prompts, 4, chunk) == want, "{slots} slots");
    }
}
