//! A plan in which routers run twice: once early, for a guess of the experts that will be asked for, and once for real.

use crate::{
    op::{ColumnRange, ExpertRanks, Experts, Linear, Normalize, Op, Operands},
    plan::{Mark, Plan},
    slot::{Slot, SlotSpec, WeightId},
};

/// A guess which experts a mixture will ask for, from the residual as it is before the mixture of an earlier layer.
///
/// Residuals change little from layer to layer, so that the router of the next layer is mostly right on that of this one
/// (Eliseev, Mazur 2023, "Fast inference of mixture-of-experts language models with offloading").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertGuess {
    /// First weight of the mixture before which the guess is made.
    pub before: WeightId,
    /// The mixture that is guessed for, with early logits in place of its own.
    pub next: Experts,
    /// The early normed residual.
    pub normed: Slot,
}

/// The norm and the router of a mixture as they are run early.
struct EarlyRouter {
    norm: Normalize,
    router: Linear,
    guess: ExpertGuess,
}

/// The plan in which norm and router of each mixture of experts run before the mixture of the layer before it, too, into
/// slots of their own. What they compute is read by nobody but a tier that reads experts ahead; leaving them out changes
/// no result.
///
/// A mixture has no guess where its input is not the norm of a residual that is there by then with the same rows, where
/// its logits are more than one product, or where its router is not `resident`.
pub fn lookahead(plan: Plan, resident: &dyn Fn(WeightId) -> bool) -> (Plan, Vec<ExpertGuess>) {
    let mixtures: Vec<usize> = (0..plan.ops.len()).filter(|&i| begins_mixture(&plan.ops[i])).collect();
    let Plan { mut slots, .. } = plan.clone();
    let mut early: Vec<Option<EarlyRouter>> = plan.ops.iter().map(|_| None).collect();
    for pair in mixtures.windows(2) {
        early[pair[0]] = early_router(&plan, &mut slots, (pair[0], pair[1]), resident);
    }
    let (mut ops, mut starts, mut guesses) = (vec![], vec![], vec![]);
    for (op, early) in plan.ops.iter().zip(early) {
        starts.push(ops.len());
        if let Some(EarlyRouter { norm, router, guess }) = early {
            ops.extend([Op::from(norm), Op::from(router)]);
            guesses.push(guess);
        }
        ops.push(op.clone());
    }
    starts.push(ops.len());
    let marks = plan.marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
    (Plan { ops, slots, marks, ..plan }, guesses)
}

/// True for a mixture, but for what one has deferred.
fn begins_mixture(op: &Op) -> bool {
    matches!(op, Op::Experts(o) if !matches!(o.routing.ranks, ExpertRanks::Behind(_)))
}

/// The router of mixture `there` at the place of mixture `here`, if it can run there.
fn early_router(
    plan: &Plan,
    slots: &mut Vec<SlotSpec>,
    (here, there): (usize, usize),
    resident: &dyn Fn(WeightId) -> bool,
) -> Option<EarlyRouter> {
    let (Op::Experts(before), Op::Experts(next)) = (&plan.ops[here], &plan.ops[there]) else { return None };
    let between = &plan.ops[here + 1..there];
    let Op::Linear(router) = only_writer(between, next.logits)? else { return None };
    let Op::Normalize(norm) = only_writer(between, router.x)? else { return None };
    let known = plan.ops[..here].iter().any(|op| op.writes().contains(&norm.x));
    let same_rows = [norm.x, router.x, before.logits].iter().all(|s| plan.kind(*s) == plan.kind(next.logits));
    let whole = router.part.columns == ColumnRange::All && resident(router.part.weight);
    if !known || !same_rows || !whole || norm.x == norm.out || slots.len() + 2 > usize::from(u16::MAX) {
        return None;
    }
    let mut slot = |of: Slot, name| {
        slots.push(SlotSpec { name, ..plan.slots[usize::from(of.0)] });
        Slot((slots.len() - 1) as u16)
    };
    let (normed, logits) = (slot(norm.out, "early normed"), slot(next.logits, "early router"));
    let mut part = router.part;
    part.out = logits;
    Some(EarlyRouter {
        norm: Normalize { out: normed, ..*norm },
        router: Linear { x: normed, part },
        guess: ExpertGuess { before: before.gate, next: Experts { logits, ..*next }, normed },
    })
}

/// The operator of `ops` that writes `slot`, if one alone does.
fn only_writer(ops: &[Op], slot: Slot) -> Option<&Op> {
    let mut writers = ops.iter().filter(|op| op.writes().contains(&slot));
    writers.next().filter(|_| writers.next().is_none())
}
