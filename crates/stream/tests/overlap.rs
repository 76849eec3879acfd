//! A device and the host compute at the same time: told by a simulated device with a clock of its own, and by a host whose
//! operators sleep.
//!
//! A binary of its own: the times are those of a machine on which no other test of the crate runs.
#![allow(clippy::unwrap_used)]

#[path = "it/common/opened.rs"]
mod opened;

use lamina_arch::weights::Tensor;
use lamina_cpu::Cpu;
use lamina_fixtures::{Models, tokens};
use lamina_oracle::Throttled;
use lamina_plan::{
    Backend, BackendWeight, Batch, Capabilities, KvLayout, KvTypes, Limits, Ops, Plan, Reports, Select,
    SeqPlace, Sizes, WeightId, WeightSpec, Wrapper,
    backend::Result,
    defer_experts,
    op::{ExpertRanks, Op, OpRef, run},
    walk,
};
use lamina_stream::{DeviceHomes, TierSide, Tiered};
use opened::Opened;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What of an operator takes time.
type Times = Arc<dyn Fn(OpRef<'_>) -> Duration + Send + Sync>;

/// A CPU on which operators take as long as it is said: they sleep, so that other work of the machine changes nothing.
struct Sleeping(Cpu, Times);

struct SleepingMachine(Box<dyn Ops>, Times);

impl Reports for Sleeping {
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl Sizes for Sleeping {
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.0.page_bytes(layout, group, types)
    }
}

impl Backend for Sleeping {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        self.0.upload(spec, tensor)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let Sleeping(cpu, times) = *self;
        Ok(Box::new(SleepingMachine(Box::new(cpu).machine(plan, weights, limits)?, times)))
    }
}

impl Wrapper for SleepingMachine {
    const FUSED: bool = true;

    fn inner(&self) -> &dyn Ops {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.0
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        thread::sleep((self.1)(op));
        op.run(&mut *self.0, b)
    }
}

/// How the operators of a step are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// All at once, in the plan's own order.
    AsPlanned,
    /// All at once, in the order that the backend likes.
    Whole,
    /// The same order, one by one.
    OneByOne,
}

/// Seconds of a step where the experts that rows choose are the host's, and all else is the device's.
fn seconds(opened: &Opened, (device, host): (&Times, &Times), asked: Asked) -> f64 {
    let plan = &opened.plan;
    let of_host = |w: WeightId| plan.weight(w).name.contains("_exps");
    let side = |w: WeightId| if of_host(w) { TierSide::Host } else { TierSide::Device };
    let homes = DeviceHomes::of(plan, &side, &|_| TierSide::Device).unwrap();
    let (cpu, times) = (|| Cpu::new(1).unwrap(), device.clone());
    let device = Throttled::new(cpu(), 1 << 40, f64::INFINITY).taking(move |op: OpRef<'_>| times(op));
    let backend = Box::new(Tiered::new(device, Sleeping(cpu(), host.clone()), homes));
    let plan = if asked == Asked::AsPlanned { plan.clone() } else { backend.ordered(plan.clone()) };
    let weights = opened.uploaded(&*backend);
    let mut machine = backend.machine(&plan, weights, &opened.limits(64)).unwrap();
    let mut batch = Batch::default();
    let pages = vec![vec![5, 2]; plan.kv.groups.len()];
    batch.push(&tokens(8), 0, SeqPlace { pages, prompt_len: 8, ..SeqPlace::default() }, Select::Last);
    machine.begin(&batch).unwrap();
    let begun = Instant::now();
    match asked {
        Asked::OneByOne => plan.ops.iter().try_for_each(|op| run(&mut *machine, op, &batch)).unwrap(),
        _ => walk(&mut *machine, &plan.ops, &batch).unwrap(),
    }
    machine.wait().unwrap();
    begun.elapsed().as_secs_f64()
}

/// Seconds of the operators of a step that take any, on each machine.
const BUSY: f64 = 0.6;

fn share(count: usize) -> Duration {
    Duration::from_secs_f64(BUSY / count as f64)
}

/// The shared expert is computed on the device while the host computes those that rows choose.
#[test]
fn shared_experts_are_computed_beside_those_that_rows_choose() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("deepseek-v2"), None);
    let plan = &opened.plan;
    let is_shared = |w: WeightId| plan.weight(w).name.contains("_shexp");
    let shared: Vec<WeightId> = plan.ops.iter().filter_map(first_of_glu).filter(|w| is_shared(*w)).collect();
    let each = share(shared.len());
    assert_eq!(shared.len(), plan.ops.iter().filter(|op| matches!(op, Op::Experts(_))).count());
    let device: Times = Arc::new(move |op: OpRef<'_>| match op {
        OpRef::Glu(o) if shared.contains(&o.project.parts[0].weight) => each,
        _ => Duration::ZERO,
    });
    let host: Times =
        Arc::new(move |op: OpRef<'_>| if matches!(op, OpRef::Experts(_)) { each } else { Duration::ZERO });
    let took = |asked| seconds(&opened, (&device, &host), asked);
    // The plan has the shared expert behind the others: the device would be asked when the host is done.
    assert!(took(Asked::AsPlanned) >= 2.0 * BUSY, "in turns");
    for asked in [Asked::Whole, Asked::OneByOne] {
        let took = took(asked);
        assert!((BUSY..1.5 * BUSY).contains(&took), "{asked:?}: {took} s");
    }
}

fn first_of_glu(op: &Op) -> Option<WeightId> {
    if let Op::Glu(o) = op { o.project.parts.first().map(|part| part.weight) } else { None }
}

/// Attention of a layer is computed on the device while the host computes experts that the layer before has deferred.
#[test]
fn attention_is_computed_beside_deferred_experts() {
    let models = Models::new();
    let opened = Opened::new(&models.folder("mixtral"), None);
    let opened = Opened { plan: defer_experts(opened.plan, 1), tensors: opened.tensors };
    let layers = opened.plan.ops.iter().filter(|op| matches!(op, Op::Attend(_))).count();
    let each = share(layers);
    let device: Times =
        Arc::new(move |op: OpRef<'_>| if matches!(op, OpRef::Attend(_)) { each } else { Duration::ZERO });
    let host: Times = Arc::new(move |op: OpRef<'_>| match op {
        OpRef::Experts(o) if matches!(o.routing.ranks, ExpertRanks::Behind(_)) => each,
        _ => Duration::ZERO,
    });
    // All layers but the last one defer some.
    let in_turns = BUSY * (2.0 - 1.0 / layers as f64);
    for asked in [Asked::Whole, Asked::OneByOne] {
        let took = seconds(&opened, (&device, &host), asked);
        let both = BUSY..0.5 * (BUSY + in_turns);
        assert!(layers > 1 && both.contains(&took), "{asked:?}: {took} s");
    }
}
