//! Sends weights of the host to a device, operator by operator, ahead of their use.

use crate::{host_copy::HostCopy, tier_plan::TierPlan, tier_side::TierSide};
use lamina_base::Bytes;
use lamina_plan::{
    BackendError, Batch, Ops, Plan, RowKind, SentWeight, WeightId,
    backend::Result,
    op::{Op, Operands, Routing},
    staged_bytes,
};

/// Experts are sent one by one, those that rows have chosen, where rows choose no larger share of them: what is chosen is
/// known too late to be sent ahead.
const FEW: f64 = 0.5;

/// The share of `experts` experts, of which a row chooses `top_k`, that `rows` rows choose on average and without favourites,
/// where so few are sent one by one; else 1.
pub fn sent_share(rows: f64, top_k: usize, experts: usize) -> f64 {
    let one = (top_k as f64 / experts.max(1) as f64).min(1.0);
    let share = 1.0 - (1.0 - one).powf(rows);
    if share <= FEW { share } else { 1.0 }
}

/// Staging slots of a device: an operator multiplies with one, while the next one's weights are copied to the other.
pub const STAGING_SLOTS: usize = 2;

/// An operator of the device whose weights are sent.
struct SentOp {
    weights: Vec<WeightId>,
    /// Rows that it computes; without any it needs no weights.
    rows: RowKind,
    /// Of a mixture, who is chosen.
    routing: Option<Routing>,
}

/// Sends weights in the order of a pass, and goes on with the next pass behind its end: nothing stays on the device.
pub(crate) struct WeightSender {
    ops: Vec<SentOp>,
    /// Of each operator of the plan, which of `ops` it is.
    of_op: Vec<Option<usize>>,
    /// Of each weight of the plan, what the host has.
    copies: Vec<Option<HostCopy>>,
    /// Operators whose weights are in a slot, or on their way there.
    slots: [Option<usize>; STAGING_SLOTS],
    /// The slot that experts of a mixture go to as they come from disk, until all of them are there; or where a step has
    /// failed before.
    gathering: Option<usize>,
    /// Operators without rows in the running step.
    skipped: Vec<bool>,
    /// Mixtures of which it needs few experts.
    few: Vec<bool>,
    /// Bytes that were sent.
    bytes: u64,
}

/// Bytes of a staging slot for the operators of `plan` that the device runs: the most that one of them is sent, where `len`
/// tells the bytes of weights that are sent.
pub(crate) fn slot_bytes(plan: &Plan, split: &TierPlan, len: &dyn Fn(WeightId) -> Option<usize>) -> usize {
    let of_device = plan.ops.iter().zip(&split.steps).filter(|(_, step)| step.side == TierSide::Device);
    let bytes = |weights: Vec<WeightId>| weights.into_iter().filter_map(len).map(staged_bytes).sum();
    of_device.map(|(op, _)| bytes(sent_weights(op, len))).max().unwrap_or(0)
}

/// Weights of an operator that are sent, each once.
fn sent_weights(op: &impl Operands, len: &dyn Fn(WeightId) -> Option<usize>) -> Vec<WeightId> {
    let mut weights: Vec<WeightId> = op.weights().into_iter().filter(|w| len(*w).is_some()).collect();
    weights.sort_unstable_by_key(|w| w.0);
    weights.dedup();
    weights
}

impl WeightSender {
    /// What sends the weights of `plan` of which the host has copies, with the bytes of a slot; none where there are none.
    pub fn new(
        plan: &Plan,
        split: &TierPlan,
        copies: Vec<Option<HostCopy>>,
    ) -> Option<(WeightSender, usize)> {
        let len = |w: WeightId| copies[w.0 as usize].as_ref().map(HostCopy::len);
        let bytes = slot_bytes(plan, split, &len);
        let (mut ops, mut of_op) = (vec![], vec![None; plan.ops.len()]);
        for (i, (op, step)) in plan.ops.iter().zip(&split.steps).enumerate() {
            let weights = sent_weights(op, &len);
            if step.side == TierSide::Device && !weights.is_empty() {
                let rows = step.writes.last().map_or(RowKind::All, |slot| plan.kind(*slot));
                of_op[i] = Some(ops.len());
                let routing = if let Op::Experts(o) = op { Some(o.routing) } else { None };
                ops.push(SentOp { weights, rows, routing });
            }
        }
        let (slots, none) = ([None; STAGING_SLOTS], vec![false; ops.len()]);
        let (skipped, few) = (none.clone(), none);
        let some = !ops.is_empty();
        let sender = WeightSender { ops, of_op, copies, slots, gathering: None, skipped, few, bytes: 0 };
        some.then_some((sender, bytes))
    }

    /// What the host has in memory for good: nothing that is read from disk is there before the first step.
    pub fn resident(&self) -> impl Iterator<Item = &Bytes> {
        self.copies.iter().flatten().filter_map(HostCopy::resident)
    }

    /// Bytes that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins a step.
    pub fn begin(&mut self, b: &Batch) {
        for (k, op) in self.ops.iter().enumerate() {
            let rows = b.count(op.rows);
            let share = |r: &Routing| sent_share(rows as f64, r.top_k, r.experts);
            self.skipped[k] = rows == 0;
            self.few[k] = op.routing.as_ref().map_or(1.0, share) < 1.0;
        }
    }

    /// The number of an operator of the plan among those whose weights are sent.
    pub fn find(&self, op: usize) -> Option<usize> {
        self.of_op[op]
    }

    /// True where operator `k` has nothing to compute in this step.
    pub fn skips(&self, k: usize) -> bool {
        self.skipped[k]
    }

    /// True for a mixture of which only those experts are sent that rows have chosen; false where all are in a slot.
    pub fn needs_few(&self, k: usize) -> bool {
        self.few[k] && !self.slots.contains(&Some(k))
    }

    /// The host has a matrix of a weight there from now on, or not at all; false for weights that are not sent.
    pub fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<&Bytes>) -> bool {
        let copy = self.copies[weight.0 as usize].as_mut();
        copy.map(|copy| copy.bind(piece, bytes)).is_some()
    }

    /// Sends experts of mixture `k` to a slot, beside those that were sent for it before: it is run with all of them.
    pub fn gather(&mut self, machine: &mut dyn Ops, k: usize, experts: &[usize]) -> Result<usize> {
        let slot = self.gathering.unwrap_or_else(|| self.free_slot(None));
        self.slots[slot] = None;
        self.gathering = Some(slot);
        self.send_to(machine, slot, k, Some(experts))?;
        Ok(slot)
    }

    /// Returns when what was gathered is on the device: the host may have something else where it was.
    pub fn settle(&self, machine: &mut dyn Ops) -> Result<()> {
        self.gathering.map_or(Ok(()), |slot| machine.settle(slot))
    }

    /// Runs operator `k` with its weights in a slot, of a mixture with `some` experts or all, and sends those of the next
    /// one meanwhile.
    ///
    /// A machine that computes before its calls return has to be sent them first. For one that queues its work they are sent
    /// behind it: the copy waits for the operator before the last one, which used the same slot, and a host that waits with
    /// it could not have queued this one.
    pub fn run(
        &mut self,
        machine: &mut dyn Ops,
        k: usize,
        some: Option<&[usize]>,
        run: impl FnOnce(&mut dyn Ops) -> Result<()>,
    ) -> Result<()> {
        let slot = match self.slots.iter().position(|held| *held == Some(k)) {
            Some(slot) => slot,
            None => self.send(machine, k, some, None)?,
        };
        self.run_in(machine, k, slot, run)
    }

    /// Runs mixture `k` with the experts that were gathered for it.
    pub fn run_gathered(
        &mut self,
        machine: &mut dyn Ops,
        k: usize,
        run: impl FnOnce(&mut dyn Ops) -> Result<()>,
    ) -> Result<()> {
        if self.skipped[k] {
            return Ok(());
        }
        // Rows may have chosen none.
        let slot = self.gather(machine, k, &[])?;
        machine.settle(slot)?;
        self.gathering = None;
        self.run_in(machine, k, slot, run)
    }

    /// Runs operator `k` with what is in `slot`.
    fn run_in(
        &mut self,
        machine: &mut dyn Ops,
        k: usize,
        slot: usize,
        run: impl FnOnce(&mut dyn Ops) -> Result<()>,
    ) -> Result<()> {
        machine.arrive(slot)?;
        let eager = machine.eager();
        let ahead = if eager { self.send_next(machine, k, slot) } else { Ok(()) };
        let done = ahead.and_then(|()| run(machine));
        self.slots[slot] = None;
        done.and(machine.release(slot))?;
        if eager { Ok(()) } else { self.send_next(machine, k, slot) }
    }

    /// Sends the weights of the next operator that has rows and needs all of its weights, if the host has them; those of
    /// `slot` are in use.
    fn send_next(&mut self, machine: &mut dyn Ops, k: usize, slot: usize) -> Result<()> {
        let behind = (k + 1..self.ops.len()).chain(0..k);
        let Some(next) = behind.into_iter().find(|&i| !self.skipped[i] && !self.few[i]) else {
            return Ok(());
        };
        let there = |w: &WeightId| self.copies[w.0 as usize].as_ref().is_some_and(HostCopy::is_whole);
        if self.slots.contains(&Some(next)) || !self.ops[next].weights.iter().all(there) {
            return Ok(());
        }
        self.send(machine, next, None, Some(slot)).map(|_| ())
    }

    /// Sends the weights of operator `k`, of stacks `some` matrices or all, to a slot other than `used`.
    fn send(
        &mut self,
        machine: &mut dyn Ops,
        k: usize,
        some: Option<&[usize]>,
        used: Option<usize>,
    ) -> Result<usize> {
        let slot = self.free_slot(used);
        self.send_to(machine, slot, k, some)?;
        // Some experts of a mixture serve the present step alone.
        self.slots[slot] = some.is_none().then_some(k);
        Ok(slot)
    }

    /// A slot other than `used`: a free one, or one whose weights came too early.
    fn free_slot(&mut self, used: Option<usize>) -> usize {
        let others = || (0..STAGING_SLOTS).filter(|slot| Some(*slot) != used);
        let free = others().find(|slot| self.slots[*slot].is_none());
        let slot = free.or_else(|| others().next()).unwrap_or(0);
        self.slots[slot] = None;
        slot
    }

    fn send_to(
        &mut self,
        machine: &mut dyn Ops,
        slot: usize,
        k: usize,
        some: Option<&[usize]>,
    ) -> Result<()> {
        let weights = self.ops[k].weights.iter().map(|w| self.sent(*w, some));
        let weights = weights.collect::<Result<Vec<_>>>()?;
        machine.send(slot, &weights)?;
        self.bytes += weights.iter().map(|w| w.copied_bytes() as u64).sum::<u64>();
        Ok(())
    }

    fn sent(&self, weight: WeightId, some: Option<&[usize]>) -> Result<SentWeight> {
        let copy = self.copies[weight.0 as usize].as_ref();
        let what = || format!("sending weight {} that the host does not have", weight.0);
        copy.and_then(|copy| copy.sent(weight, some))
            .ok_or_else(|| BackendError::Unsupported { backend: "tiered", what: what() })
    }
}
