//! Experts in all five ways - on a device, in memory, sent up from there, on disk, sent up from disk - give the bits of one
//! machine, however few are in memory at once and whatever the disk does.

use crate::common::divided::{chance, two_cpus};
use crate::common::odd::odd;
use crate::common::on_disk::OnDisk;
use crate::common::opened::Opened;
use lamina_cpu::Cpu;
use lamina_fixtures::{Models, tokens};
use lamina_plan::{
    BackendError, Batch, Plan, Runner, Select, SeqPlace, Sizes, Step, WeightId, WeightKind,
    op::{Experts, Op},
    walk,
};
use lamina_stream::{DeviceHomes, TierSide, Tiered};
use std::{collections::BTreeSet, ops::Range};

/// How a weight is kept and computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Device,
    Ram,
    Up,
    Disk,
    DiskUp,
}

const WAYS: [Way; 5] = [Way::Device, Way::Ram, Way::Up, Way::Disk, Way::DiskUp];

impl Way {
    fn side(self) -> TierSide {
        if matches!(self, Way::Ram | Way::Disk) { TierSide::Host } else { TierSide::Device }
    }

    fn is_sent(self) -> bool {
        matches!(self, Way::Up | Way::DiskUp)
    }

    fn is_read(self) -> bool {
        matches!(self, Way::Disk | Way::DiskUp)
    }
}

/// The way of each weight of a plan: matrices of dense products are never on disk here.
type Ways<'a> = &'a dyn Fn(&Plan, WeightId) -> Way;

/// A way by chance, the same for the experts of a layer.
fn scattered(seed: u64) -> impl Fn(&Plan, WeightId) -> Way {
    move |plan, w| {
        let name = &plan.weight(w).name;
        match plan.weight(w).kind {
            WeightKind::Stack { .. } => {
                let layer = name.split("ffn_").next().unwrap();
                WAYS[chance(seed, layer) % WAYS.len()]
            }
            _ => WAYS[chance(seed, name) % 3],
        }
    }
}

fn backend(plan: &Plan, ways: Ways<'_>, layer: &dyn Fn(usize) -> TierSide) -> Tiered {
    let homes = DeviceHomes::of(plan, &|w| ways(plan, w).side(), layer).unwrap();
    two_cpus(homes.sending(plan, &|w| ways(plan, w).is_sent()))
}

/// Rows `rows` of two texts.
fn batch(plan: &Plan, rows: Range<usize>) -> Batch {
    let (mut batch, text) = (Batch::default(), tokens(40));
    for s in 0..2u32 {
        let pages = vec![vec![3 * s, 3 * s + 1]; plan.kv.groups.len()];
        let place = SeqPlace { pages, state: s, prompt_len: 40, ..SeqPlace::default() };
        batch.push(&text[rows.clone()], rows.start, place, Select::Tail(3));
    }
    batch
}

/// A long step, one of half as many rows, and two of one row of each text.
const STEPS: [Range<usize>; 4] = [0..23, 23..38, 38..39, 39..40];

fn bits(runner: &mut Runner, batch: &Batch) -> Result<Vec<u32>, BackendError> {
    let selected = batch.selected.len();
    let (told, mut row, mut all) = (runner.run(batch)?, vec![], vec![]);
    for i in 0..selected {
        told.logits(i, &mut row)?;
        all.extend(row.iter().map(|v| v.to_bits()));
    }
    Ok(all)
}

/// Bits of all steps; one that fails, as `errors` counts, is run again.
fn all_bits(runner: &mut Runner, plan: &Plan) -> (Vec<Vec<u32>>, Vec<String>) {
    let mut errors = vec![];
    let mut step = |rows: Range<usize>| {
        let batch = batch(plan, rows);
        bits(runner, &batch).unwrap_or_else(|e| {
            errors.push(e.to_string());
            bits(runner, &batch).unwrap()
        })
    };
    let all = STEPS.map(&mut step).to_vec();
    (all, errors)
}

fn on_one_machine(opened: &Opened) -> Vec<Vec<u32>> {
    let cpu = Cpu::new(1).unwrap();
    let weights = opened.uploaded(&cpu);
    let mut runner = Runner::new(cpu, opened.plan.clone(), weights, opened.limits(64)).unwrap();
    all_bits(&mut runner, &opened.plan).0
}

fn mixtures() -> Vec<Opened> {
    let models = Models::new();
    let opened = models.all().into_iter().map(|folder| Opened::new(&folder, None));
    opened.filter(|o| o.plan.ops.iter().any(|op| matches!(op, Op::Experts(_)))).collect()
}

#[test]
fn all_five_ways_of_experts_give_the_same_bits() {
    let mut seen = BTreeSet::new();
    for opened in mixtures() {
        let (plan, root) = (&opened.plan, tempfile::tempdir().unwrap());
        let want = on_one_machine(&opened);
        let on_disk = OnDisk { plan, tensors: &opened.tensors, root: root.path() };
        for (seed, slots) in [1, 2, 5, 9, 1 << 10].into_iter().enumerate() {
            let (ways, reader) = (scattered(seed as u64), odd(None, seed as u64));
            let layer = |kv: usize| WAYS[chance(seed as u64, &format!("layer {kv}")) % 2].side();
            seen.extend(on_disk.mixtures().map(|o| ways(plan, o.gate)));
            let inner = backend(plan, &ways, &layer);
            let is_read = |o: &Experts| ways(plan, o.gate).is_read();
            let (machine, steps) = on_disk.streamed(inner, &is_read, (slots, reader), &opened.limits(64));
            let mut runner = Runner::on(machine, steps, opened.limits(64));
            assert!(all_bits(&mut runner, plan).0 == want, "seed {seed}, {slots} slots: {}", plan.hidden);
        }
    }
    assert_eq!(seen.len(), WAYS.len(), "{seen:?}");
}

/// Everything on the device, and experts sent there from disk.
fn from_disk(plan: &Plan, w: WeightId) -> Way {
    let of_experts = matches!(plan.weight(w).kind, WeightKind::Stack { .. });
    if of_experts && plan.weight(w).name.contains("_exps") { Way::DiskUp } else { Way::Device }
}

/// A step sends the experts that its rows have chosen, each once; those that it finds in memory are not read.
#[test]
fn chosen_experts_are_sent_and_missing_ones_read() {
    for name in ["mixtral", "deepseek-v2"] {
        let opened = Opened::new(&Models::new().folder(name), None);
        let (plan, root) = (&opened.plan, tempfile::tempdir().unwrap());
        let on_disk = OnDisk { plan, tensors: &opened.tensors, root: root.path() };
        let all: usize = on_disk.mixtures().map(|o| o.routing.experts).sum();
        let rule = on_disk.mixtures().next().unwrap().routing;
        let device = |_| TierSide::Device;
        let inner = backend(plan, &from_disk, &device);
        let weights = || plan.weights.iter().zip(&opened.tensors);
        let stacks: usize = weights().map(|(w, t)| inner.sent_bytes(w, t.dtype)).sum();
        let (mut machine, steps) =
            on_disk.streamed(inner, &|_| true, (all, odd(None, 1)), &opened.limits(64));
        let mut step = |rows: Range<usize>| {
            let (mut batch, before) = (Batch::default(), machine.streamed());
            let pages = vec![vec![5, 2]; plan.kv.groups.len()];
            let place = SeqPlace { pages, prompt_len: 40, ..SeqPlace::default() };
            batch.push(&tokens(40)[rows.clone()], rows.start, place, Select::All);
            machine.begin(&batch).unwrap();
            walk(&mut *machine, &steps.ops, &batch).unwrap();
            let now = machine.streamed();
            (now.sent - before.sent, now.experts.misses - before.experts.misses)
        };
        let chosen = (rule.top_k * on_disk.mixtures().count()) as u64;
        let (sent, read) = step(0..1);
        // Some are there before: they were guessed.
        assert!((chosen / 2..=chosen).contains(&read), "{name}: {read} of {chosen} experts");
        assert_eq!(sent as usize * rule.experts, stacks * rule.top_k, "{name}: one row");
        let (sent, read) = step(0..1);
        assert_eq!((sent as usize * rule.experts, read), (stacks * rule.top_k, 0), "{name}: the same row");
        let (sent, _) = step(1..38);
        assert!(sent as usize <= stacks && 2 * sent as usize > stacks, "{name}: {sent} of {stacks} bytes");
    }
}

/// A read that fails ends its step, and what had been sent for it harms no later one.
#[test]
fn a_step_is_run_again_after_a_read_has_failed() {
    let opened = Opened::new(&Models::new().folder("mixtral"), None);
    let (plan, root) = (&opened.plan, tempfile::tempdir().unwrap());
    let want = on_one_machine(&opened);
    let on_disk = OnDisk { plan, tensors: &opened.tensors, root: root.path() };
    let mut failed = 0;
    for fails in 1..24 {
        let inner = backend(plan, &from_disk, &|_| TierSide::Device);
        let reader = odd(Some(fails), fails as u64);
        let (machine, steps) = on_disk.streamed(inner, &|_| true, (3, reader), &opened.limits(64));
        let mut runner = Runner::on(machine, steps, opened.limits(64));
        let (bits, errors) = all_bits(&mut runner, plan);
        assert!(errors.len() <= 1 && errors.iter().all(|e| e.contains("broken disk")), "{fails}: {errors:?}");
        assert!(bits == want, "read {fails} fails");
        failed += errors.len();
    }
    assert!(failed > 10, "{failed}");
}
