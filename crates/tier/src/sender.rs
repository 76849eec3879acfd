//! Sends weights of the host to a device, operator by operator, ahead of their use.

use crate::{tier_plan::TierPlan, tier_side::TierSide};
use lamina_base::Bytes;
use lamina_plan::{
    BackendError, Batch, Ops, Plan, RowKind, SentWeight, WeightId, backend::Result, op::Operands,
    staged_bytes,
};

/// Staging slots of a device: an operator multiplies with one, while the next one's weights are copied to the other.
pub const STAGING_SLOTS: usize = 2;

/// A weight that the host has and the device multiplies with.
#[derive(Clone, Debug)]
pub(crate) struct HostCopy {
    /// Its matrices: one, or those of a stack.
    pub pieces: usize,
    /// Bytes of all of them in the device's form.
    pub len: usize,
    /// They themselves; none while they are on disk.
    pub bytes: Option<Bytes>,
}

/// An operator of the device whose weights are sent.
struct SentOp {
    weights: Vec<WeightId>,
    /// Rows that it computes; without any it needs no weights.
    rows: RowKind,
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
    /// Operators without rows in the running step.
    skipped: Vec<bool>,
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
        let len = |w: WeightId| copies[w.0 as usize].as_ref().map(|copy| copy.len);
        let bytes = slot_bytes(plan, split, &len);
        let (mut ops, mut of_op) = (vec![], vec![None; plan.ops.len()]);
        for (i, (op, step)) in plan.ops.iter().zip(&split.steps).enumerate() {
            let weights = sent_weights(op, &len);
            if step.side == TierSide::Device && !weights.is_empty() {
                let rows = step.writes.last().map_or(RowKind::All, |slot| plan.kind(*slot));
                of_op[i] = Some(ops.len());
                ops.push(SentOp { weights, rows });
            }
        }
        let (slots, skipped) = ([None; STAGING_SLOTS], vec![false; ops.len()]);
        let some = !ops.is_empty();
        some.then_some((WeightSender { ops, of_op, copies, slots, skipped, bytes: 0 }, bytes))
    }

    /// What the host has in memory for good: nothing that is read from disk is there before the first step.
    pub fn resident(&self) -> impl Iterator<Item = &Bytes> {
        self.copies.iter().flatten().filter_map(|copy| copy.bytes.as_ref())
    }

    /// Bytes that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins a step.
    pub fn begin(&mut self, b: &Batch) {
        self.skipped.iter_mut().zip(&self.ops).for_each(|(skipped, op)| *skipped = b.count(op.rows) == 0);
    }

    /// The number of an operator of the plan among those whose weights are sent.
    pub fn find(&self, op: usize) -> Option<usize> {
        self.of_op[op]
    }

    /// True where operator `k` has nothing to compute in this step.
    pub fn skips(&self, k: usize) -> bool {
        self.skipped[k]
    }

    /// The host has a matrix of a weight there from now on, or not at all; false for weights that are not sent.
    pub fn bind(&mut self, weight: WeightId, bytes: Option<&Bytes>) -> bool {
        let copy = self.copies[weight.0 as usize].as_mut();
        copy.map(|copy| copy.bytes = bytes.cloned()).is_some()
    }

    /// Runs operator `k` with its weights in a slot, and sends those of the next one meanwhile.
    ///
    /// A machine that computes before its calls return has to be sent them first. For one that queues its work they are sent
    /// behind it: the copy waits for the operator before the last one, which used the same slot, and a host that waits with
    /// it could not have queued this one.
    pub fn run<M: Ops>(
        &mut self,
        machine: &mut M,
        k: usize,
        run: impl FnOnce(&mut M) -> Result<()>,
    ) -> Result<()> {
        let slot = match self.slots.iter().position(|held| *held == Some(k)) {
            Some(slot) => slot,
            None => self.send(machine, k, None)?,
        };
        machine.arrive(slot)?;
        let eager = machine.eager();
        let ahead = if eager { self.send_next(machine, k, slot) } else { Ok(()) };
        let done = ahead.and_then(|()| run(machine));
        self.slots[slot] = None;
        done.and(machine.release(slot))?;
        if eager { Ok(()) } else { self.send_next(machine, k, slot) }
    }

    /// Sends the weights of the next operator that has rows, if the host has them; those of `slot` are in use.
    fn send_next<M: Ops>(&mut self, machine: &mut M, k: usize, slot: usize) -> Result<()> {
        let behind = (k + 1..self.ops.len()).chain(0..k);
        let Some(next) = behind.into_iter().find(|&i| !self.skipped[i]) else { return Ok(()) };
        let there = |w: &WeightId| self.copies[w.0 as usize].as_ref().is_some_and(|c| c.bytes.is_some());
        if self.slots.contains(&Some(next)) || !self.ops[next].weights.iter().all(there) {
            return Ok(());
        }
        self.send(machine, next, Some(slot)).map(|_| ())
    }

    /// Sends the weights of operator `k` to a slot other than `used`: a free one, or one whose weights came too early.
    fn send<M: Ops>(&mut self, machine: &mut M, k: usize, used: Option<usize>) -> Result<usize> {
        let others = || (0..STAGING_SLOTS).filter(|slot| Some(*slot) != used);
        let free = others().find(|slot| self.slots[*slot].is_none());
        let slot = free.or_else(|| others().next()).unwrap_or(0);
        let weights = self.ops[k].weights.iter().map(|w| self.sent(*w)).collect::<Result<Vec<_>>>()?;
        self.slots[slot] = None;
        machine.send(slot, &weights)?;
        self.slots[slot] = Some(k);
        self.bytes += weights.iter().map(|w| w.bytes.len() as u64).sum::<u64>();
        Ok(slot)
    }

    fn sent(&self, weight: WeightId) -> Result<SentWeight> {
        let copy = self.copies[weight.0 as usize].as_ref();
        let found = copy.and_then(|copy| Some((copy.pieces, copy.bytes.clone()?)));
        let what = || format!("sending weight {} that the host does not have", weight.0);
        let (pieces, bytes) =
            found.ok_or_else(|| BackendError::Unsupported { backend: "tiered", what: what() })?;
        Ok(SentWeight { weight, pieces, bytes })
    }
}
