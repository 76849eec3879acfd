//! A simulated device: a backend behind a link of some speed, with a budget of memory.

use crate::{
    clock::DeviceClock,
    slots::{SimulatedSlots, StagingEvent},
};
use lamina_arch::weights::Tensor;
use lamina_base::{Bytes, DType, human_bytes};
use lamina_plan::{
    About, BackendError, BackendWeight, Batch, Capabilities, Footprint, KvLayout, KvTypes, Memory, Ops,
    PanelFill, Panels, Plan, ReadSpeed, Reports, SentWeight, Sizes, Slot, WeightId, WeightLayout, WeightSpec,
    Wrapper,
    backend::{Backend, Limits, Result},
    op::{Experts, OpRef},
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

impl<B: Backend + Panels + Clone + 'static> Reports for Throttled<B> {
    fn name(&self) -> &'static str {
        "simulated device"
    }

    fn about(&self) -> About {
        About { device: "simulated".to_owned(), ..self.inner.about() }
    }

    fn read_bandwidth(&self) -> Result<Option<ReadSpeed>> {
        self.inner.read_bandwidth()
    }
}

impl<B: Backend + Panels + Clone + 'static> Sizes for Throttled<B> {
    fn memory(&self) -> Option<Memory> {
        Some(Memory { free: self.limits.memory - self.taken(), total: self.limits.memory })
    }

    fn runs_as(&self, dtype: DType) -> DType {
        self.inner.runs_as(dtype)
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        self.inner.weight_bytes(spec, dtype)
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        self.inner.stores_as(layout, group, types)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.inner.page_bytes(layout, group, types)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        self.inner.footprint(plan, limits)
    }
}

impl<B: Backend + Panels + Clone + 'static> Backend for Throttled<B> {
    fn capabilities(&self) -> Capabilities {
        let all = self.inner.capabilities();
        Capabilities {
            shares_memory: false,
            reads_rows: false,
            binds_cache: false,
            pages_by_head: false,
            parts_experts: false,
            ..all
        }
    }

    fn handle(&self) -> Option<Box<dyn Backend>> {
        Some(Box::new(self.clone()))
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        self.inner.refuses(plan)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        self.limits.take(&spec.name, self.weight_bytes(spec, tensor.dtype))?;
        self.inner.upload(spec, tensor)
    }

    fn share(&self, weight: &BackendWeight) -> Option<BackendWeight> {
        self.inner.share(weight)
    }

    fn panels(&self) -> Option<&dyn Panels> {
        Some(self)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let footprint = self.inner.footprint(plan, limits)?.unwrap_or_default();
        self.limits.take("the machine", footprint.total())?;
        let inner = Box::new(self.inner).machine(plan, weights, limits)?;
        let clock = DeviceClock::default();
        Ok(Box::new(ThrottledMachine { inner, limits: self.limits, slots: None, clock }))
    }
}

impl<B: Backend + Panels + Clone + 'static> Panels for Throttled<B> {
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        self.inner.layout(spec, dtype)
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.inner.pack(spec, tensor, panels, out)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<BackendWeight> {
        self.inner.unbound(spec, dtype)
    }

    fn upload_panels(&self, spec: &WeightSpec, dtype: DType, fill: PanelFill<'_>) -> Result<BackendWeight> {
        self.limits.take(&spec.name, self.weight_bytes(spec, dtype))?;
        self.inner.upload_panels(spec, dtype, fill)
    }
}

/// The machine of a simulated device.
struct ThrottledMachine {
    inner: Box<dyn Ops>,
    limits: DeviceLimits,
    slots: Option<SimulatedSlots>,
    clock: DeviceClock,
}

impl ThrottledMachine {
    /// The machine, and its staging slots.
    fn parts(&mut self) -> Result<(&mut dyn Ops, &mut SimulatedSlots)> {
        let what = "weights without staging slots".to_owned();
        let none = BackendError::Unsupported { backend: "simulated device", what };
        Ok((&mut *self.inner, self.slots.as_mut().ok_or(none)?))
    }

    /// So many bytes cross the link to the device.
    fn went(&self, bytes: usize) {
        self.clock.add(self.limits.crossing(bytes));
    }

    /// So many bytes have crossed the link to the host, which waits for them.
    fn came(&self, bytes: usize) {
        self.went(bytes);
        self.clock.wait();
    }
}

impl Wrapper for ThrottledMachine {
    const FUSED: bool = true;

    fn inner(&self) -> &dyn Ops {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.inner
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        self.clock.add(self.limits.times.as_ref().map_or(Duration::ZERO, |times| times(op)));
        op.run(&mut *self.inner, b)
    }

    fn eager(&self) -> bool {
        self.limits.times.is_none() && self.inner.eager()
    }

    fn wait(&mut self) -> Result<()> {
        self.clock.wait();
        self.inner.wait()
    }

    fn finish(&mut self) -> Result<()> {
        self.clock.wait();
        self.inner.wait()
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        self.inner.read(slot, rows, out)?;
        self.came(size_of_val(&out[..]));
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        self.went(size_of_val(numbers));
        self.inner.write(slot, rows, numbers)
    }

    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        let front = self.inner.front(slot, row, n)?;
        self.came(size_of_val(&front[..]));
        Ok(front)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let bytes = self.inner.export_page(group, page)?;
        self.came(bytes.len());
        Ok(bytes)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.went(bytes.len());
        self.inner.import_page(group, page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        let bytes = self.inner.export_state(state)?;
        self.came(bytes.len());
        Ok(bytes)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        self.went(bytes.len());
        self.inner.import_state(state, bytes)
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        self.went(bytes.as_ref().map_or(0, |b| b.len()));
        self.inner.bind(weight, piece, bytes)
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        let asked = self.inner.route_experts(b, o)?;
        self.came(size_of_val(&asked[..]));
        Ok(asked)
    }

    fn stage(&mut self, slots: usize, bytes: usize) -> Result<()> {
        self.limits.take("staging slots", slots * bytes)?;
        self.slots = Some(SimulatedSlots::new(slots, bytes));
        Ok(())
    }

    fn send(&mut self, slot: usize, weights: &[SentWeight]) -> Result<()> {
        let rate = self.limits.rate;
        self.parts()?.1.send(slot, weights, rate)?;
        let named = weights.iter().map(|w| w.weight).collect();
        self.limits.tell(StagingEvent::Sent(slot, named));
        Ok(())
    }

    fn settle(&mut self, slot: usize) -> Result<()> {
        self.parts()?.1.settle(slot);
        Ok(())
    }

    fn arrive(&mut self, slot: usize) -> Result<()> {
        let (machine, slots) = self.parts()?;
        let there = slots.arrive(machine, slot)?;
        self.clock.reach(there);
        self.limits.tell(StagingEvent::Arrived(slot));
        Ok(())
    }

    fn release(&mut self, slot: usize) -> Result<()> {
        let done = self.clock.done();
        let (machine, slots) = self.parts()?;
        slots.release(machine, slot, done)?;
        self.limits.tell(StagingEvent::Released(slot));
        Ok(())
    }
}
