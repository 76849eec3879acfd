//! What a device beside the host computes of a model, how fast it is, and what crosses the link.

use crate::hardware::Hardware;
use lamina_plan::{
    Backend, KvLayout, Limits, Plan, RowKind, Slot, SlotSpec, WeightId,
    backend::Result,
    op::{Copy, Op, Operands},
};
use lamina_stream::{TierPlan, TierSide};
use std::time::Instant;

/// Seconds until rows are on their way: a device is waited for, and a copy is begun.
const LATENCY: f64 = 20e-6;
/// Bytes per second of a link that cannot be measured: a slow PCIe one.
const UNKNOWN_LINK: f64 = 8e9;
/// Rows and columns that are sent to measure a link.
const SENT: (usize, usize) = (256, 4096);
/// How often they are sent; the best counts.
const REPEATS: usize = 3;

/// Rows that cross: where to, and numbers per row.
#[derive(Clone, Copy, Debug)]
struct CrossingRows {
    to: TierSide,
    rows: RowKind,
    width: f64,
}

/// What a device computes of a model, and how fast it and its link are.
#[derive(Clone, Debug)]
pub struct DeviceCost {
    /// Speeds of the device.
    pub hardware: Hardware,
    /// Bytes per second of the link.
    pub link: f64,
    /// Of each operator, whether the device runs it.
    runs: Vec<bool>,
    /// Of each operator, what crosses before it.
    crossing: Vec<Vec<CrossingRows>>,
    /// Of each operator, bytes of weights that are sent for it.
    sent: Vec<f64>,
}

impl DeviceCost {
    /// The cost of what `split` divides of `plan`.
    pub fn new(plan: &Plan, split: &TierPlan, hardware: Hardware, link: f64) -> DeviceCost {
        let crosses = |&(slot, to): &(Slot, TierSide)| CrossingRows {
            to,
            rows: plan.kind(slot),
            width: plan.width(slot) as f64,
        };
        DeviceCost {
            hardware,
            link,
            runs: split.steps.iter().map(|step| step.side == TierSide::Device).collect(),
            crossing: split.steps.iter().map(|step| step.brings.iter().map(crosses).collect()).collect(),
            sent: vec![0.0; split.steps.len()],
        }
    }

    /// The same where weights of `plan` are sent to the device for each of its operators; `bytes` tells those of one, 0 where
    /// the device keeps it.
    #[must_use]
    pub fn sending(self, plan: &Plan, bytes: &dyn Fn(WeightId) -> f64) -> DeviceCost {
        let of = |op: &Op| {
            let mut weights = op.weights();
            weights.sort_unstable_by_key(|w| w.0);
            weights.dedup();
            weights.into_iter().map(bytes).sum()
        };
        let sent = plan.ops.iter().zip(&self.runs).map(|(op, runs)| if *runs { of(op) } else { 0.0 });
        DeviceCost { sent: sent.collect(), ..self }
    }

    /// Bytes of weights that are sent for operator `i`.
    pub fn sent(&self, i: usize) -> f64 {
        self.sent.get(i).copied().unwrap_or(0.0)
    }

    /// A device that runs all operators, each with so many bytes that are sent.
    #[cfg(test)]
    pub(crate) fn of_sent(hardware: Hardware, link: f64, sent: Vec<f64>) -> DeviceCost {
        let (runs, crossing) = (vec![true; sent.len()], vec![vec![]; sent.len()]);
        DeviceCost { hardware, link, runs, crossing, sent }
    }

    /// A device that runs those operators of which `runs` is true. Rows of no width cross before each operator, to where it
    /// says.
    #[cfg(test)]
    pub(crate) fn of_runs(
        hardware: Hardware,
        link: f64,
        runs: Vec<bool>,
        to: Vec<Option<TierSide>>,
    ) -> DeviceCost {
        let crosses = |to: TierSide| CrossingRows { to, rows: RowKind::All, width: 0.0 };
        let crossing = to.into_iter().map(|to| to.map(crosses).into_iter().collect()).collect();
        DeviceCost { hardware, link, sent: vec![0.0; runs.len()], runs, crossing }
    }

    /// True where the device runs operator `i`.
    pub fn runs(&self, i: usize) -> bool {
        self.runs.get(i).copied().unwrap_or(false)
    }

    /// Seconds of what crosses to `side` before operator `i`, where `count` tells the rows of a kind.
    pub fn crossing(&self, i: usize, side: TierSide, count: impl Fn(RowKind) -> f64) -> f64 {
        let one = |crossing: &CrossingRows| match count(crossing.rows) {
            0.0 => 0.0,
            rows => LATENCY + 4.0 * rows * crossing.width / self.link,
        };
        let here = self.crossing.get(i).into_iter().flatten().filter(|crossing| crossing.to == side);
        here.map(one).sum()
    }
}

/// Bytes per second that cross between the host and the memory of `backend`, the mean of both ways.
///
/// # Errors
/// When the device fails, or has too little memory.
pub fn link_rate(backend: &dyn Backend) -> Result<f64> {
    let Some(own) = backend.handle() else { return Ok(UNKNOWN_LINK) };
    let ((rows, width), slot) = (SENT, Slot(0));
    let plan = Plan {
        ops: vec![Op::from(Copy { x: slot, out: slot })],
        slots: vec![SlotSpec { name: "probe", width, rows: RowKind::All }],
        weights: vec![],
        ropes: vec![],
        kv: KvLayout::default(),
        normed: slot,
        logits: slot,
        marks: vec![],
        hidden: width,
        tokens: 1,
        vocab: width,
    };
    let limits = Limits { rows, selected: rows, logits: rows, pages: vec![], states: 0, kv: vec![] };
    let mut machine = own.machine(&plan, vec![], &limits)?;
    let (sent, mut back) = (vec![1.0f32; rows * width], vec![]);
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let begun = Instant::now();
        machine.write(slot, 0..rows, &sent)?;
        machine.read(slot, 0..rows, &mut back)?;
        best = best.min(begun.elapsed().as_secs_f64());
    }
    Ok(2.0 * size_of_val(&sent[..]) as f64 / best.max(1e-9))
}
