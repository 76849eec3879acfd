//! A simulated device: a backend behind a link of some speed, with a budget of memory.

use crate::{
    clock::DeviceClock,
    slots::{SimulatedSlots, StagingEvent},
};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, human_bytes};
use lamina_plan::{
    About, BackendError, Batch, Footprint, Ops, Plan, SentWeight, WeightLayout, WeightSpec, Wrapper,
    backend::{Backend, Limits, Memory, PanelFill, Result},
    forward_backend,
    op::OpRef,
};
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The time that an operator takes on a simulated device.
type OperatorTimes = Arc<dyn Fn(OpRef<'_>) -> Duration + Send + Sync>;

/// A simulated device, for tests and benches of what is divided between a device and the host: it refuses what goes beyond
/// its memory, and whatever crosses its link takes the time that its bytes need. That time goes by beside the host, on a
/// clock of its own: who waits for the device, or reads of it, sleeps until its clock has come. It computes as `B` does, on
/// the same processor: times that are measured with it are those of no device.
#[derive(Clone)]
pub struct Throttled<B> {
    inner: B,
    limits: DeviceLimits,
}

/// What a simulated device has, and what became of it.
#[derive(Clone)]
struct DeviceLimits {
    /// Bytes that were taken.
    taken: Arc<AtomicU64>,
    memory: u64,
    /// Bytes per second of the link; infinite for one that takes no time.
    rate: f64,
    /// Of a device that queues its operators: how long each takes.
    times: Option<OperatorTimes>,
    events: Arc<Mutex<Vec<StagingEvent>>>,
}

impl DeviceLimits {
    fn take(&self, what: &str, bytes: usize) -> Result<()> {
        let before = self.taken.fetch_add(bytes as u64, Relaxed);
        if before + bytes as u64 <= self.memory {
            return Ok(());
        }
        self.taken.fetch_sub(bytes as u64, Relaxed);
        Err(BackendError::OutOfMemory {
            what: what.to_owned(),
            need: human_bytes(bytes as u64),
            have: human_bytes(self.memory.saturating_sub(before)),
            advice: "give the simulated device more memory",
        })
    }

    /// The time that bytes take on the link.
    fn crossing(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate)
    }

    fn tell(&self, event: StagingEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl<B: Backend> Throttled<B> {
    /// A device of `memory` bytes behind a link of `rate` bytes per second, which computes as `inner` does.
    pub fn new(inner: B, memory: u64, rate: f64) -> Throttled<B> {
        let (taken, events) = (Arc::default(), Arc::default());
        Throttled { inner, limits: DeviceLimits { taken, memory, rate, times: None, events } }
    }

    /// The same device where operators take as long as `times` says, one behind the other, and are queued as on a GPU: their
    /// calls return before.
    #[must_use]
    pub fn taking(self, times: impl Fn(OpRef<'_>) -> Duration + Send + Sync + 'static) -> Throttled<B> {
        Throttled { limits: DeviceLimits { times: Some(Arc::new(times)), ..self.limits }, ..self }
    }

    /// Bytes that were taken of its memory. What is dropped is not given back.
    pub fn taken(&self) -> u64 {
        self.limits.taken.load(Relaxed)
    }

    /// What happened to staging slots so far, in order.
    pub fn staging_events(&self) -> Vec<StagingEvent> {
        self.limits.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<B: Backend> Backend for Throttled<B> {
    type Weight = B::Weight;
    type Machine = ThrottledMachine<B::Machine>;

    forward_backend!(inner: capabilities runs_as weight_bytes stores_as page_bytes);

    fn name(&self) -> &'static str {
        "simulated device"
    }

    fn handle(&self) -> Option<Self> {
        Some(Throttled { inner: self.inner.handle()?, limits: self.limits.clone() })
    }

    fn about(&self) -> About {
        About { device: "simulated".to_owned(), ..self.inner.about() }
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { free: self.limits.memory - self.taken(), total: self.limits.memory })
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        self.inner.refuses(plan)
    }

    fn read_bandwidth(&self) -> Result<Option<f64>> {
        self.inner.read_bandwidth()
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<B::Weight> {
        self.limits.take(&spec.name, self.weight_bytes(spec, tensor.dtype))?;
        self.inner.upload(spec, tensor)
    }

    fn share(&self, weight: &B::Weight) -> Option<B::Weight> {
        self.inner.share(weight)
    }

    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        self.inner.layout(spec, dtype)
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.inner.pack(spec, tensor, panels, out)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<B::Weight> {
        self.inner.unbound(spec, dtype)
    }

    fn upload_panels(&self, spec: &WeightSpec, dtype: DType, fill: PanelFill<'_>) -> Result<B::Weight> {
        self.limits.take(&spec.name, self.weight_bytes(spec, dtype))?;
        self.inner.upload_panels(spec, dtype, fill)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        self.inner.footprint(plan, limits)
    }

    fn machine(self, plan: &Plan, weights: Vec<B::Weight>, limits: &Limits) -> Result<Self::Machine> {
        let footprint = self.inner.footprint(plan, limits)?.unwrap_or_default();
        self.limits.take("the machine", footprint.total())?;
        Ok(ThrottledMachine {
            inner: self.inner.machine(plan, weights, limits)?,
            limits: self.limits,
            slots: None,
            clock: DeviceClock::default(),
        })
    }
}

/// The machine of a simulated device.
pub struct ThrottledMachine<M> {
    inner: M,
    limits: DeviceLimits,
    slots: Option<SimulatedSlots>,
    clock: DeviceClock,
}

impl<M> ThrottledMachine<M> {
    /// The machine, and its staging slots.
    fn parts(&mut self) -> Result<(&mut M, &mut SimulatedSlots)> {
        let what = "weights without staging slots".to_owned();
        let none = BackendError::Unsupported { backend: "simulated device", what };
        Ok((&mut self.inner, self.slots.as_mut().ok_or(none)?))
    }
}

impl<M: Ops> Wrapper for ThrottledMachine<M> {
    type Inner = M;
    const FUSED: bool = true;

    fn inner(&self) -> &M {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        self.clock.add(self.limits.times.as_ref().map_or(Duration::ZERO, |times| times(op)));
        op.run(&mut self.inner, b)
    }

    fn eager_inner(&self) -> bool {
        self.limits.times.is_none() && self.inner.eager()
    }

    fn wait_inner(&mut self) -> Result<()> {
        self.clock.wait();
        self.inner.wait()
    }

    fn finish_inner(&mut self) -> Result<()> {
        self.wait_inner()
    }

    fn stage_inner(&mut self, slots: usize, bytes: usize) -> Result<()> {
        self.limits.take("staging slots", slots * bytes)?;
        self.slots = Some(SimulatedSlots::new(slots, bytes));
        Ok(())
    }

    fn send_inner(&mut self, slot: usize, weights: &[SentWeight]) -> Result<()> {
        let rate = self.limits.rate;
        self.parts()?.1.send(slot, weights, rate)?;
        let named = weights.iter().map(|w| w.weight).collect();
        self.limits.tell(StagingEvent::Sent(slot, named));
        Ok(())
    }

    fn settle_inner(&mut self, slot: usize) -> Result<()> {
        self.parts()?.1.settle(slot);
        Ok(())
    }

    fn arrive_inner(&mut self, slot: usize) -> Result<()> {
        let (machine, slots) = self.parts()?;
        let there = slots.arrive(machine, slot)?;
        self.clock.reach(there);
        self.limits.tell(StagingEvent::Arrived(slot));
        Ok(())
    }

    fn release_inner(&mut self, slot: usize) -> Result<()> {
        let done = self.clock.done();
        let (machine, slots) = self.parts()?;
        slots.release(machine, slot, done)?;
        self.limits.tell(StagingEvent::Released(slot));
        Ok(())
    }

    fn went(&self, bytes: usize) {
        self.clock.add(self.limits.crossing(bytes));
    }

    fn came(&self, bytes: usize) {
        self.clock.add(self.limits.crossing(bytes));
        self.clock.wait();
    }
}
