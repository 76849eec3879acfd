//! Plans that are divided between a simulated device and the host give the bits of one machine, however they are divided.

use crate::common::divided::{beside_cpu, chance, roomy_device, two_cpus};
use crate::common::opened::Opened;
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_cpu::Cpu;
use lamina_fixtures::{Models, packaged, tokens};
use lamina_oracle::{
    StagingEvent::{self, Arrived, Released, Sent},
    Throttled,
    conform::{self, Tolerance, scope},
};
use lamina_plan::{
    Backend, BackendError, BackendWeight, Batch, Capabilities, KvLayout, KvTypes, LORA, LayerState, Limits,
    Ops, Plan, Reports, Runner, Select, SeqPlace, Sizes, Slot, Step, Tap, WeightId, WeightKind, WeightSpec,
    backend::Result,
    op::{Op, Operands},
    walk,
};
use lamina_stream::{DeviceHomes, TierSide, Tiered, staging_bytes};
use std::time::Instant;

/// A side by chance, the same for the same name and seed.
fn coin(seed: u64, name: &str) -> TierSide {
    if chance(seed, name).is_multiple_of(2) { TierSide::Device } else { TierSide::Host }
}

/// How a plan is divided.
#[derive(Clone, Copy, Debug)]
enum Division {
    /// By chance.
    Scattered(u64),
    /// Experts on the host, and all else on the device.
    ExpertsOnHost,
    /// Some layers on the device, whole.
    Layers(usize),
    /// Weights on the device, and the cache on the host.
    CacheOnHost,
    /// Everything on one machine.
    All(TierSide),
    /// By chance, and half of the device's weights are sent to it in every step.
    Sent(u64),
    /// Everything on the device, and all matrices are sent to it in every step.
    AllSent,
}

fn block(name: &str) -> usize {
    name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

impl Division {
    fn homes(self, plan: &Plan) -> DeviceHomes {
        let if_device = |yes: bool| if yes { TierSide::Device } else { TierSide::Host };
        let name = |w: WeightId| plan.weight(w).name.as_str();
        let weight = |w: WeightId| match self {
            Division::Scattered(seed) | Division::Sent(seed) => coin(seed, name(w)),
            Division::ExpertsOnHost => if_device(!name(w).contains("_exps")),
            Division::Layers(n) => if_device(name(w).starts_with("blk.") && block(name(w)) < n),
            Division::CacheOnHost | Division::AllSent => TierSide::Device,
            Division::All(side) => side,
        };
        let layer = |kv: usize| match self {
            Division::Scattered(seed) | Division::Sent(seed) => coin(seed, &format!("layer {kv}")),
            Division::ExpertsOnHost | Division::AllSent => TierSide::Device,
            Division::Layers(n) => if_device(kv < n),
            Division::CacheOnHost => TierSide::Host,
            Division::All(side) => side,
        };
        DeviceHomes::of(plan, &weight, &layer).unwrap().sending(plan, &|w| match self {
            Division::Sent(seed) => coin(seed + 1, name(w)) == TierSide::Device,
            _ => matches!(self, Division::AllSent),
        })
    }

    fn backend(self, plan: &Plan) -> Tiered {
        two_cpus(self.homes(plan))
    }
}

/// A backend over two that divides plans when it sees them: cases of the kit are not known before.
struct Scattered(u64);

impl Reports for Scattered {
    fn name(&self) -> &'static str {
        "scattered"
    }
}

impl Sizes for Scattered {
    fn runs_as(&self, dtype: DType) -> DType {
        Cpu::new(1).unwrap().runs_as(dtype)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        Cpu::new(1).unwrap().page_bytes(layout, group, types)
    }
}

impl Backend for Scattered {
    fn capabilities(&self) -> Capabilities {
        Cpu::new(1).unwrap().capabilities()
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        Division::Scattered(self.0).backend(plan).refuses(plan)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        Ok(BackendWeight::new((spec.clone(), tensor.clone())))
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let backend = Box::new(Division::Scattered(self.0).backend(plan));
        let weights: Vec<(WeightSpec, Tensor)> = BackendWeight::own(weights, self.name())?;
        let uploaded = weights.iter().map(|(spec, tensor)| backend.upload(spec, tensor));
        let uploaded = uploaded.collect::<Result<Vec<_>>>()?;
        backend.machine(plan, uploaded, limits)
    }
}

#[test]
fn the_kit_conforms_however_plans_are_divided() {
    conforms([0, 1]);
}

/// Two tests, which take both cores of a small machine.
#[test]
fn the_kit_conforms_with_other_divisions() {
    conforms([2, 3]);
}

fn conforms(seeds: [u64; 2]) {
    let tolerance = Tolerance { quantized: 2.5e-2, ..Tolerance::default() };
    for seed in seeds {
        let report = conform::run_where(|| Scattered(seed), tolerance, scope::of_this_run());
        println!("{seed}: {report}");
        report.assert();
        assert!(report.refused.is_empty(), "declined: {:?}", report.refused);
    }
}

impl Opened {
    fn runner(&self, backend: impl Backend + 'static) -> Runner {
        let (weights, plan) = (self.uploaded(&backend), backend.ordered(self.plan.clone()));
        Runner::new(backend, plan, weights, self.limits(64)).unwrap()
    }

    /// Bits of all that steps give: logits, largest tokens, normed rows, rows at a mark in the middle.
    fn bits(&self, backend: impl Backend + 'static, lora: &[f32]) -> Vec<u32> {
        let (mut runner, text, mut all) = (self.runner(backend), tokens(40), vec![]);
        let groups = self.plan.kv.groups.len();
        let mark = self.plan.marks.len() / 2;
        for (step, rows) in [0..23, 23..38, 38..39, 39..40].into_iter().enumerate() {
            let mut batch = Batch::default();
            let count = rows.len() as u32;
            for s in 0..2u32 {
                let pages = vec![vec![3 * s, 3 * s + 1]; groups];
                let lora = if s == 0 { lora.into() } else { vec![].into() };
                let place = SeqPlace { pages, state: s, prompt_len: 40, lora, ..SeqPlace::default() };
                batch.push(&text[rows.clone()], rows.start, place, Select::Tail(3));
            }
            batch.taps.extend((step % 2 == 0).then_some(Tap { mark, rows: count..count + 1 }));
            let selected = batch.selected.len();
            let told = runner.run(&batch).unwrap();
            let mut row = vec![];
            for i in 0..selected {
                told.logits(i, &mut row).unwrap();
                all.extend(row.iter().map(|v| v.to_bits()));
                told.normed(i, &mut row).unwrap();
                all.extend(row.iter().map(|v| v.to_bits()));
                all.extend(told.top_k(i, 3).unwrap().iter().flat_map(|(t, v)| [*t, v.to_bits()]));
                all.push(told.argmax(i).unwrap().0);
            }
            (0..batch.taps.len()).for_each(|i| all.extend(told.tap(i).iter().map(|v| v.to_bits())));
        }
        all
    }
}

const DIVISIONS: [Division; 10] = [
    Division::Sent(3),
    Division::Sent(8),
    Division::AllSent,
    Division::Scattered(1),
    Division::Scattered(2),
    Division::ExpertsOnHost,
    Division::Layers(1),
    Division::CacheOnHost,
    Division::All(TierSide::Device),
    Division::All(TierSide::Host),
];

#[test]
fn all_families_give_the_same_bits_on_two_machines() {
    let models = Models::new();
    for folder in models.all().into_iter().chain([packaged()]) {
        let opened = Opened::new(&folder, None);
        let want = opened.bits(Cpu::new(1).unwrap(), &[]);
        for division in DIVISIONS {
            let backend = division.backend(&opened.plan);
            assert_eq!(backend.refuses(&opened.plan), None);
            assert!(opened.bits(backend, &[]) == want, "{}: {division:?}", folder.display());
        }
    }
}

#[test]
fn adapters_lie_with_what_they_change_and_give_the_same_bits() {
    let models = Models::new();
    for name in ["llama", "gemma2", "mixtral", "deepseek-v2", "qwen3-next", "mamba2"] {
        let opened = Opened::new(&models.folder(name), Some(2));
        let want = opened.bits(Cpu::new(1).unwrap(), &[0.7, 0.0, -1.3]);
        assert!(want != opened.bits(Cpu::new(1).unwrap(), &[]), "{name}: adapters change nothing");
        for division in DIVISIONS {
            let backend = division.backend(&opened.plan);
            for (i, weight) in opened.plan.weights.iter().enumerate() {
                let Some(base) = LORA.iter().find_map(|end| weight.name.strip_suffix(end)) else { continue };
                let base = opened.plan.weights[..i].iter().find(|w| w.name == base).unwrap();
                let sides = [weight, base].map(|w| backend.homes.sides(w));
                assert!(!backend.homes.is_sent(weight), "{} stays where it is", weight.name);
                assert_eq!(sides[0], sides[1], "{} and what it changes", weight.name);
            }
            assert!(opened.bits(backend, &[0.7, 0.0, -1.3]) == want, "{name}: {division:?}");
        }
    }
}

/// Rows that cross are those that the divided plan names, and no others.
#[test]
fn what_crosses_is_known_before() {
    let models = Models::new();
    for name in ["llama", "mixtral", "qwen3-next"] {
        let opened = Opened::new(&models.folder(name), None);
        for division in DIVISIONS {
            let backend = division.backend(&opened.plan);
            let plan = backend.ordered(opened.plan.clone());
            let (split, weights) = (backend.split(&plan).unwrap(), opened.uploaded(&backend));
            let mut machine = Box::new(backend).machine(&plan, weights, &opened.limits(64)).unwrap();
            let mut batch = Batch::default();
            let groups = opened.plan.kv.groups.len();
            let place = SeqPlace { pages: vec![vec![5, 2]; groups], prompt_len: 40, ..SeqPlace::default() };
            batch.push(&tokens(40), 0, place, Select::Tail(4));
            machine.begin(&batch).unwrap();
            walk(&mut *machine, &plan.ops, &batch).unwrap();
            let row = |(s, _): &(Slot, TierSide)| 4 * plan.width(*s) * batch.count(plan.kind(*s));
            let named: usize = split.steps.iter().flat_map(|step| &step.brings).map(row).sum();
            assert_eq!(machine.streamed().crossed, named as u64, "{name}: {division:?}");
            let one_machine = matches!(division, Division::All(_) | Division::AllSent);
            assert!(named == 0 || !one_machine, "{name}: {division:?} crosses {named}");
            let divided = matches!(division, Division::Layers(_) | Division::CacheOnHost);
            assert!(named > 0 || !divided, "{name}: {division:?} crosses nothing");
        }
    }
}

/// Attention is run where its layer of the cache lies, and experts where their matrices lie.
#[test]
fn operators_are_run_where_their_weights_and_layers_are() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("deepseek-v2"), None);
    let plan = &opened.plan;
    let side_of = |division: Division, is: &dyn Fn(&Op) -> bool| -> Vec<TierSide> {
        let split = division.backend(plan).split(plan).unwrap();
        plan.ops.iter().zip(&split.steps).filter(|(op, _)| is(op)).map(|(_, step)| step.side).collect()
    };
    let experts = |op: &Op| matches!(op, Op::Experts(_));
    let attention = |op: &Op| op.layer().is_some();
    assert!(side_of(Division::ExpertsOnHost, &experts).iter().all(|s| *s == TierSide::Host));
    assert!(side_of(Division::ExpertsOnHost, &attention).iter().all(|s| *s == TierSide::Device));
    assert!(side_of(Division::CacheOnHost, &attention).iter().all(|s| *s == TierSide::Host));
    let device = Division::Layers(1).homes(plan).layout(&plan.kv, TierSide::Device);
    let elsewhere = device.layers.iter().filter(|l| **l == LayerState::Elsewhere).count();
    assert_eq!((elsewhere, device.layers.len()), (plan.kv.layers.len() - 1, plan.kv.layers.len()));
}

/// Both machines together take no more than the sizes that were told, and a device that is too small refuses.
#[test]
fn a_simulated_device_keeps_its_budget_and_takes_its_time() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("mixtral"), None);
    let division = Division::ExpertsOnHost;
    let backend = division.backend(&opened.plan);
    let limits = opened.limits(64);
    let weights: usize =
        opened.plan.weights.iter().zip(&opened.tensors).map(|(w, t)| backend.device_bytes(w, t.dtype)).sum();
    let machine = backend.device_footprint(&opened.plan, &limits).unwrap().unwrap();
    let need = (weights + machine.total() + 64) as u64;
    let with = |memory: u64, rate: f64| {
        let device = Throttled::new(Cpu::new(1).unwrap(), memory, rate);
        (beside_cpu(device.clone(), division.homes(&opened.plan)), device)
    };
    let (told, device) = with(need, f64::INFINITY);
    opened.runner(told);
    assert!(device.taken() + 64 >= need, "{} of {need}", device.taken());
    let (small, _) = with(weights as u64 / 2, f64::INFINITY);
    let refused = opened.plan.weights.iter().zip(&opened.tensors).find_map(|(w, t)| small.upload(w, t).err());
    assert!(matches!(refused, Some(BackendError::OutOfMemory { .. })), "{refused:?}");
    // A link of 1 MB/s.
    let (slow, _) = with(need, 1e6);
    let weights = opened.uploaded(&slow);
    let mut machine = Box::new(slow).machine(&opened.plan, weights, &limits).unwrap();
    let mut batch = Batch::default();
    let groups = opened.plan.kv.groups.len();
    let place = SeqPlace { pages: vec![vec![5, 2]; groups], prompt_len: 40, ..SeqPlace::default() };
    batch.push(&tokens(40), 0, place, Select::Last);
    let before = Instant::now();
    machine.begin(&batch).unwrap();
    opened.plan.ops.iter().try_for_each(|op| lamina_plan::op::run(&mut *machine, op, &batch)).unwrap();
    machine.wait().unwrap();
    let (crossed, took) = (machine.streamed().crossed as f64 / 1e6, before.elapsed().as_secs_f64());
    assert!(crossed > 0.0 && took >= crossed, "{took} s for {crossed} MB");
}

/// Pages and states of both machines are one piece of bytes; others are refused.
#[test]
fn pages_and_states_come_and_go_as_one() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("qwen3-next"), None);
    let backend = Division::Layers(2).backend(&opened.plan);
    let weights = opened.uploaded(&backend);
    let mut machine = Box::new(backend).machine(&opened.plan, weights, &opened.limits(64)).unwrap();
    fn whole(machine: &mut dyn Ops, bytes: &[u8]) -> [bool; 3] {
        [bytes, &bytes[1..], &[]].map(|bytes| machine.import_page(0, 1, bytes).is_ok())
    }
    let page = machine.export_page(0, 3).unwrap();
    assert_eq!(whole(&mut *machine, &page), [true, false, false]);
    let state = machine.export_state(2).unwrap();
    assert_eq!(state.len(), 4 * opened.plan.kv.state_len());
    assert!(machine.import_state(1, &state).is_ok() && machine.import_state(1, &state[4..]).is_err());
}

/// Bytes of staging slots of a device for a division.
fn slots_bytes(opened: &Opened, backend: &Tiered) -> usize {
    let dtype = |w: WeightId| opened.tensors[w.0 as usize].dtype;
    staging_bytes(&*backend.device, &backend.homes, &opened.plan, &dtype).unwrap()
}

/// What a device takes beside its machine and the weights that it keeps are two slots, of the largest operator each: a
/// device with no byte more computes all that is sent.
#[test]
fn staging_slots_are_used_in_turn_and_keep_the_budget() {
    let models = Models::new();
    for name in ["llama", "mixtral", "deepseek-v2", "qwen3-next"] {
        let opened = Opened::new(&models.folder(name), None);
        let plan = &opened.plan;
        let free = Division::AllSent.backend(plan);
        let weights = || plan.weights.iter().zip(&opened.tensors);
        let kept: usize = weights().map(|(w, t)| free.device_bytes(w, t.dtype)).sum();
        let sent: usize = weights().map(|(w, t)| free.weight_bytes(w, t.dtype)).sum();
        let machine = free.device_footprint(plan, &opened.limits(64)).unwrap().unwrap().total();
        let slots = slots_bytes(&opened, &free);
        assert!(slots > 0 && slots < sent, "{name}: {slots} bytes of slots for {sent}");
        let need = (kept + machine + slots) as u64;
        let with = |memory: u64| {
            let device = Throttled::new(Cpu::new(1).unwrap(), memory, f64::INFINITY);
            (beside_cpu(device.clone(), Division::AllSent.homes(plan)), device)
        };
        // What stands for a weight that lies elsewhere is a vector of one number.
        let (backend, device) = with(need + 64);
        let want = opened.bits(Cpu::new(1).unwrap(), &[]);
        assert!(opened.bits(backend, &[]) == want, "{name}");
        assert!(device.taken() >= need, "{name}: {} of {need}", device.taken());
        let (small, _) = with(need - 1);
        let uploaded = opened.uploaded(&small);
        let refused = Box::new(small).machine(plan, uploaded, &opened.limits(64)).err();
        assert!(matches!(refused, Some(BackendError::OutOfMemory { .. })), "{name}: {refused:?}");
    }
}

/// The weights of the next operator are on their way before an operator is computed: told by the order of what happens to
/// the slots, and no clock.
#[test]
fn the_next_operators_weights_are_copied_while_one_is_computed() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("llama"), None);
    let device = roomy_device();
    let backend = beside_cpu(device.clone(), Division::AllSent.homes(&opened.plan));
    let weights = opened.uploaded(&backend);
    let mut machine = Box::new(backend).machine(&opened.plan, weights, &opened.limits(64)).unwrap();
    let place = || SeqPlace {
        pages: vec![vec![5, 2]; opened.plan.kv.groups.len()],
        prompt_len: 40,
        ..SeqPlace::default()
    };
    let mut passes = 0;
    let mut pass = |rows: std::ops::Range<usize>, select| {
        let mut batch = Batch::default();
        batch.push(&tokens(40)[rows.clone()], rows.start, place(), select);
        machine.begin(&batch).unwrap();
        walk(&mut *machine, &opened.plan.ops, &batch).unwrap();
        passes += 1;
    };
    pass(0..20, Select::Last);
    pass(20..40, Select::Last);
    let events = device.staging_events();
    let arrived: Vec<usize> = (0..events.len()).filter(|i| matches!(events[*i], Arrived(_))).collect();
    let sent = |events: &[StagingEvent]| events.iter().filter(|e| matches!(e, Sent(..))).count();
    assert_eq!((&events[0], arrived[0]), (&Sent(0, first_sent(&opened.plan)), 1), "the first is waited for");
    for (k, at) in arrived.iter().enumerate() {
        let Arrived(slot) = events[*at] else { unreachable!("just looked at") };
        let other = 1 - slot;
        let [Sent(next, _), Released(done)] = &events[at + 1..at + 3] else {
            panic!("operator {k}: {:?}", &events[*at..(at + 4).min(events.len())])
        };
        assert_eq!((*next, *done), (other, slot), "operator {k}");
    }
    // One operator more than was computed: the first of the next pass is on its way.
    assert_eq!(sent(&events), arrived.len() + 1);
    assert_eq!(arrived.len() % passes, 0);
    // Where no row is selected, nobody sends what is computed for selected rows alone: such as the output matrix.
    let before = device.staging_events().len();
    let mut batch = Batch::default();
    batch.push(&tokens(40)[..20], 0, place(), Select::None);
    machine.begin(&batch).unwrap();
    walk(&mut *machine, &opened.plan.ops, &batch).unwrap();
    let head = opened.plan.ops.iter().rev().find_map(|op| op.weights().first().copied()).unwrap();
    let named = |event: &StagingEvent| matches!(event, Sent(_, weights) if weights.contains(&head));
    let (all, few) = (&events[..], &device.staging_events()[before..]);
    assert!(all.iter().any(named) && !few.iter().any(named) && sent(few) > 0, "{few:?}");
    assert!(machine.streamed().sent > 0);
}

/// Of experts that are sent, a step of few rows sends those that its rows have chosen, and one of many all of them.
#[test]
fn few_rows_send_the_experts_that_they_choose() {
    let models = Models::new();
    for name in ["mixtral", "deepseek-v2"] {
        let opened = Opened::new(&models.folder(name), None);
        let plan = &opened.plan;
        let of_experts = |w: WeightId| matches!(plan.weight(w).kind, WeightKind::Stack { .. });
        let is_sent = |w| of_experts(w) && plan.weight(w).name.contains("_exps");
        let homes = DeviceHomes::of(plan, &|_| TierSide::Device, &|_| TierSide::Device).unwrap();
        let backend = two_cpus(homes.sending(plan, &is_sent));
        let weights = || plan.weights.iter().zip(&opened.tensors);
        let stacks: usize = weights().map(|(w, t)| backend.sent_bytes(w, t.dtype)).sum();
        let rule =
            plan.ops.iter().find_map(|op| if let Op::Experts(o) = op { Some(o.routing) } else { None });
        let rule = rule.unwrap();
        let uploaded = opened.uploaded(&backend);
        let mut machine = Box::new(backend).machine(plan, uploaded, &opened.limits(64)).unwrap();
        let mut sent = |rows: std::ops::Range<usize>| {
            let (mut batch, before) = (Batch::default(), machine.streamed().sent);
            let pages = vec![vec![5, 2]; plan.kv.groups.len()];
            let place = SeqPlace { pages, prompt_len: 40, ..SeqPlace::default() };
            batch.push(&tokens(40)[rows.clone()], rows.start, place, Select::All);
            machine.begin(&batch).unwrap();
            walk(&mut *machine, &plan.ops, &batch).unwrap();
            (machine.streamed().sent - before) as usize
        };
        let one = sent(0..1);
        assert_eq!(one * rule.experts, stacks * rule.top_k, "{name}: one row");
        let two = sent(1..3);
        assert!(two >= one && two <= 2 * one, "{name}: {two} bytes for two rows, {one} for one");
        // All layers, and the first one of the next step.
        let all = sent(3..40);
        assert!(all > stacks && all <= 2 * stacks, "{name}: {all} bytes of {stacks}");
    }
}

/// What is sent for the first operator that multiplies.
fn first_sent(plan: &Plan) -> Vec<WeightId> {
    let is_matrix = |w: &WeightId| matches!(plan.weight(*w).kind, WeightKind::Matrix { .. });
    let of = |op: &Op| op.weights().into_iter().filter(is_matrix).collect::<Vec<_>>();
    plan.ops.iter().map(of).find(|all| !all.is_empty()).unwrap()
}
