//! Runs a plan that is divided between two machines: brings rows to where they are read, and runs operators there.

use crate::{
    row_transfer::RowTransfer,
    sender::WeightSender,
    tier_plan::{TierPlan, TierStep},
    tier_side::TierSide,
};
use lamina_base::{Bytes, PageBuffer};
use lamina_plan::{
    BackendError, Batch, Limits, Ops, Plan, Queue, Slot, StreamCounts, WeightId,
    backend::Result,
    op::{Experts, Op, OpRef, *},
    walk,
};
use std::{ops::Range, sync::Arc};

/// The machine of a plan that is divided between a device and the host.
pub(crate) struct TieredMachine {
    device: Box<dyn Ops>,
    host: Box<dyn Ops>,
    ops: Arc<[Op]>,
    split: Arc<TierPlan>,
    /// Sends weights to the device that it does not keep.
    sender: Option<WeightSender>,
    /// The mixture that was routed last, as the sender counts those whose experts are sent, and what its rows have chosen.
    routed: Option<(usize, Vec<usize>)>,
    /// Slots that each side has memory for, the device first.
    placed: [Vec<bool>; 2],
    crossing: RowTransfer,
    /// Operators before it have run in this step.
    next: usize,
    /// Who ran the last operator.
    ran: TierSide,
    /// Bytes of a page of each layer group on the device.
    page_bytes: Vec<usize>,
    /// Bytes of a state on the device.
    state_bytes: usize,
}

impl TieredMachine {
    /// The machine of `plan`, from those of its two parts.
    ///
    /// # Errors
    /// When a machine fails.
    pub fn new(
        (device, host): (Box<dyn Ops>, Box<dyn Ops>),
        plan: &Plan,
        split: TierPlan,
        sender: Option<WeightSender>,
        limits: &Limits,
    ) -> Result<Self> {
        let page = |(group, &pages): (usize, &usize)| match pages {
            0 => Ok(0),
            _ => device.export_page(group, 0).map(|bytes| bytes.len()),
        };
        Ok(TieredMachine {
            page_bytes: limits.pages.iter().enumerate().map(page).collect::<Result<_>>()?,
            state_bytes: if limits.states > 0 { device.export_state(0)?.len() } else { 0 },
            placed: TierSide::BOTH.map(|side| split.touched(plan.slots.len(), side)),
            crossing: RowTransfer::new(&plan.slots),
            ops: plan.ops.clone().into(),
            split: Arc::new(split),
            sender,
            routed: None,
            next: 0,
            ran: TierSide::Host,
            device,
            host,
        })
    }

    /// The index of an operator of the plan, from the running one on.
    fn find(&mut self, op: OpRef<'_>) -> Option<usize> {
        let (next, all) = (self.next, self.ops.len());
        let found = (next..all).chain(0..next).find(|&i| self.ops[i].view() == op)?;
        self.next = found + 1;
        Some(found)
    }

    /// Calls `f` with how `op` is run and with its index in the plan, once its rows are where it is run.
    fn enter<T>(
        &mut self,
        b: &Batch,
        op: OpRef<'_>,
        f: impl FnOnce(&mut Self, &TierStep, Option<usize>) -> Result<T>,
    ) -> Result<T> {
        let split = self.split.clone();
        match self.find(op) {
            Some(i) => {
                self.bring(b, &split.steps[i])?;
                self.ran = split.steps[i].side;
                f(self, &split.steps[i], Some(i))
            }
            // A tier may run operators of its own, such as the routing of a guess.
            None => {
                let step = split.step(op, self.crossing.holders())?;
                self.bring(b, &step)?;
                self.ran = step.side;
                f(self, &step, None)
            }
        }
    }

    /// Brings the rows that an operator uses to where it is run, and those that cross before it for others.
    fn bring(&mut self, b: &Batch, step: &TierStep) -> Result<()> {
        let TieredMachine { device, host, crossing, .. } = self;
        let own = step.reads.iter().map(|&slot| (slot, step.side));
        let mut all = step.brings.iter().copied().chain(own);
        all.try_for_each(|(slot, to)| crossing.cross((&mut **device, &mut **host), b, slot, to))
    }

    fn wrote(&mut self, step: &TierStep) {
        self.crossing.wrote(&step.writes, step.side);
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        self.enter(b, op, |machine, step, at| {
            match step.side {
                TierSide::Device => machine.on_device(b, op, at)?,
                TierSide::Host => op.run(&mut *machine.host, b)?,
            }
            machine.wrote(step);
            Ok(())
        })
    }

    /// Runs operator `at` of the plan on the device, with weights that are sent there where it keeps none.
    fn on_device(&mut self, b: &Batch, op: OpRef<'_>, at: Option<usize>) -> Result<()> {
        let TieredMachine { device, sender, .. } = self;
        let device = &mut **device;
        match sender.as_mut().and_then(|sender| Some((sender.find(at?)?, sender))) {
            None => op.run(device, b),
            Some((k, sender)) if sender.skips(k) => Ok(()),
            Some((k, sender)) => {
                let chosen = match op {
                    OpRef::Experts(o) if sender.needs_few(k) => Some(device.route_experts(b, o)?),
                    _ => None,
                };
                sender.run(device, k, chosen.as_deref(), |device| op.run(device, b))
            }
        }
    }

    /// True where weights are sent to the device for an operator of the plan.
    fn is_sent(&self, op: usize) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.find(op).is_some())
    }

    /// The end of the operators from `start` on, below `end`, that one machine runs as one piece: weights are sent for one
    /// operator at a time, and what the host reads of the device crosses before the operator that it is due at.
    fn piece_end(&self, start: usize, end: usize) -> usize {
        let side = self.split.steps[start].side;
        let reads = |i: usize| self.split.steps[i].brings.iter().any(|(_, to)| *to == TierSide::Host);
        let last = |i: &usize| self.split.steps[*i].side != side || self.is_sent(*i) || reads(*i);
        if self.is_sent(start) { start + 1 } else { (start + 1..end).find(last).unwrap_or(end) }
    }

    /// Runs operators that one machine runs as one piece: all rows that they use cross before the first. A device that
    /// queues its work computes while the host goes on.
    fn run(&mut self, b: &Batch, ops: Range<usize>, split: &TierPlan) -> Result<()> {
        for step in &split.steps[ops.clone()] {
            self.bring(b, step)?;
            self.wrote(step);
        }
        let plan = self.ops.clone();
        self.ran = split.steps[ops.start].side;
        match self.ran {
            TierSide::Device if self.is_sent(ops.start) => {
                self.on_device(b, plan[ops.start].view(), Some(ops.start))
            }
            TierSide::Device => walk(&mut *self.device, &plan[ops], b),
            TierSide::Host => walk(&mut *self.host, &plan[ops], b),
        }
    }

    /// Who runs a mixture of experts.
    fn side_of(&self, o: &Experts) -> TierSide {
        if self.split.sides(o.gate.0 as usize).device { TierSide::Device } else { TierSide::Host }
    }

    /// Bytes of a page or state of both machines, the device's first.
    fn cut_bytes<'a>(&self, bytes: &'a [u8], device: usize) -> Result<(&'a [u8], &'a [u8])> {
        let what = || format!("{} bytes where a page or state has more", bytes.len());
        let fewer = || BackendError::Unsupported { backend: "tiered", what: what() };
        bytes.split_at_checked(device).ok_or_else(fewer)
    }
}

impl Queue for TieredMachine {
    /// Both make the copies of the layers that they have.
    fn begin(&mut self, b: &Batch) -> Result<()> {
        self.crossing.begin();
        self.next = 0;
        self.sender.iter_mut().for_each(|sender| sender.begin(b));
        self.device.begin(b)?;
        self.host.begin(b)
    }

    /// True where the host computes anything: the device has then done what it waits for.
    fn eager(&self) -> bool {
        let on_host = self.split.steps.iter().any(|step| step.side == TierSide::Host);
        on_host && self.host.eager() || self.device.eager()
    }

    /// Runs all of `ops`, those of one machine together, so that it may record them.
    fn replay(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        let (all, split) = (self.ops.clone(), self.split.clone());
        let Some(first) = ops.first().and_then(|op| self.find(op.view())) else { return Ok(ops.is_empty()) };
        let end = first + ops.len();
        if all.get(first..end) != Some(ops) {
            self.next = first;
            return Ok(false);
        }
        let mut start = first;
        while start < end {
            let stop = self.piece_end(start, end);
            self.run(b, start..stop, &split)?;
            start = stop;
        }
        self.next = end;
        Ok(true)
    }

    fn wait(&mut self) -> Result<()> {
        self.device.wait()?;
        self.host.wait()
    }

    /// The other machine may be at work.
    fn finish(&mut self) -> Result<()> {
        match self.ran {
            TierSide::Device => {
                self.sender.as_ref().map_or(Ok(()), |sender| sender.settle(&mut *self.device))?;
                self.device.finish()
            }
            TierSide::Host => self.host.finish(),
        }
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        self.holder(slot).read(slot, rows, out)
    }

    /// On every machine that has the slot.
    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let [device, host] = [0, 1].map(|side: usize| self.placed[side][slot.0 as usize]);
        if device {
            self.device.write(slot, rows.clone(), numbers)?;
        }
        if host {
            self.host.write(slot, rows, numbers)?;
        }
        Ok(())
    }

    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        self.holder(slot).front(slot, row, n)
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let mut bytes = self.device.export_page(group, page)?;
        bytes.extend(self.host.export_page(group, page)?);
        Ok(bytes)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        let (device, host) = self.cut_bytes(bytes, self.page_bytes[group])?;
        self.device.import_page(group, page, device)?;
        self.host.import_page(group, page, host)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        let mut bytes = self.device.export_state(state)?;
        bytes.extend(self.host.export_state(state)?);
        Ok(bytes)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        let (device, host) = self.cut_bytes(bytes, self.state_bytes)?;
        self.device.import_state(state, device)?;
        self.host.import_state(state, host)
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        if self.sender.as_mut().is_some_and(|sender| sender.bind(weight, piece, bytes.as_ref())) {
            Ok(())
        } else if self.split.sides(weight.0 as usize).device {
            self.device.bind(weight, piece, bytes)
        } else {
            self.host.bind(weight, piece, bytes)
        }
    }

    /// What lies on the device has memory of its own.
    fn bind_cache(&mut self, layer: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        self.host.bind_cache(layer, pages)
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        self.routed = None;
        self.enter(b, OpRef::Experts(o), |machine, step, at| match step.side {
            TierSide::Device => {
                let asked = machine.device.route_experts(b, o)?;
                let k = at.and_then(|at| machine.sender.as_ref()?.find(at));
                machine.routed = k.map(|k| (k, asked.clone()));
                Ok(asked)
            }
            TierSide::Host => machine.host.route_experts(b, o),
        })
    }

    /// Experts that are sent to the device are computed once all of them are there.
    fn some_experts(&mut self, b: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        self.ran = self.side_of(o);
        let TieredMachine { device, host, sender, routed, .. } = self;
        match (self.ran, sender, routed) {
            (TierSide::Device, Some(sender), Some((k, asked))) => {
                sender.gather(&mut **device, *k, &asked[which]).map(|_| ())
            }
            (TierSide::Device, ..) => device.some_experts(b, o, which),
            (TierSide::Host, ..) => host.some_experts(b, o, which),
        }
    }

    fn sum_experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        self.ran = self.side_of(o);
        let TieredMachine { device, host, sender, routed, .. } = self;
        match (self.ran, sender, routed.take()) {
            (TierSide::Device, Some(sender), Some((k, _))) => {
                sender.run_gathered(&mut **device, k, |device| OpRef::Experts(o).run(device, b))?;
            }
            (TierSide::Device, ..) => device.sum_experts(b, o)?,
            (TierSide::Host, ..) => host.sum_experts(b, o)?,
        }
        self.crossing.wrote(&[o.out], self.ran);
        Ok(())
    }

    /// Weights come by the order of the plan.
    fn repeats(&self) -> bool {
        false
    }

    fn streamed(&self) -> StreamCounts {
        let sent = self.sender.as_ref().map_or(0, WeightSender::sent_bytes);
        let own = StreamCounts { sent, crossed: self.crossing.bytes(), ..StreamCounts::default() };
        self.device.streamed() + self.host.streamed() + own
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.host.spread(tasks, task);
    }
}

impl TieredMachine {
    /// The machine that has the rows of a slot: that wrote them last or, where none did, has memory for them.
    fn holder(&self, slot: Slot) -> &dyn Ops {
        let side = self.crossing.holders().writer(slot);
        let has = |side: TierSide| self.placed[usize::from(side == TierSide::Host)][slot.0 as usize];
        match if has(side) { side } else { side.other() } {
            TierSide::Device => &*self.device,
            TierSide::Host => &*self.host,
        }
    }
}

macro_rules! operators {
    (
        plain { $($(#[$_plain:meta])* $plain:ident $Plain:ident,)* }
        fused { $($(#[$_fused:meta])* $fused:ident $Fused:ident,)* }
    ) => {
        impl Ops for TieredMachine {
            $(fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()> { self.operator(b, OpRef::$Plain(o)) })*
            $(fn $fused(&mut self, b: &Batch, o: &$Fused) -> Result<()> { self.operator(b, OpRef::$Fused(o)) })*
        }
    };
}

lamina_plan::for_each_op!(operators);
