//! Experts that are read from disk as rows ask for them: which they are, and how many are in memory.

use crate::rules::Home;
use lamina_disk::BLOCK;
use lamina_plan::{Plan, WeightId, WeightLayout, lookahead, op::Op};
use std::{borrow::Cow, collections::HashSet};

/// Experts that are not in memory at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertPlacement {
    /// Gate, up and down of each operator.
    pub stacks: Vec<[WeightId; 3]>,
    /// Experts in memory, over all operators.
    pub slots: usize,
    /// All experts.
    pub count: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
}

impl ExpertPlacement {
    /// Those of `plan` that can be read apart: three matrices with layouts, which no other operator reads.
    pub fn of(plan: &Plan, layouts: &[Option<WeightLayout>]) -> Option<ExpertPlacement> {
        let layout = |w: WeightId| layouts[w.0 as usize].as_ref();
        let stack = |op: &Op| match op {
            Op::Experts(o) => Some([o.gate, o.up, o.down]),
            _ => None,
        };
        let known = |s: &[WeightId; 3]| s.iter().all(|w| layout(*w).is_some());
        let mut stacks: Vec<_> = plan.ops.iter().filter_map(stack).filter(known).collect();
        // What a mixture defers reads the same experts.
        let mut before = HashSet::new();
        stacks.retain(|stack| before.insert(*stack));
        let mut all: Vec<u32> = stacks.iter().flatten().map(|w| w.0).collect();
        all.sort_unstable();
        all.dedup();
        if stacks.is_empty() || all.len() < 3 * stacks.len() {
            return None;
        }
        let of = |s: &[WeightId; 3]| {
            let layouts: Vec<_> = s.iter().filter_map(|w| layout(*w)).collect();
            let count = layouts.iter().map(|l| l.matrices).min().unwrap_or(0);
            let each: usize = layouts.iter().map(|l| l.panels * l.panel_bytes + 2 * BLOCK).sum();
            (count, each as u64, layouts.iter().map(|l| l.bytes() as u64).sum::<u64>())
        };
        let sizes: Vec<_> = stacks.iter().map(of).collect();
        let (count, bytes) = (sizes.iter().map(|s| s.0).sum(), sizes.iter().map(|s| s.2).sum());
        let slot_bytes = sizes.iter().map(|s| s.1).max().unwrap_or(0);
        Some(ExpertPlacement { slots: count, count, bytes, slot_bytes, stacks })
    }

    /// The same without those that rules keep in memory.
    pub fn unless_kept(
        plan: &Plan,
        layouts: &[Option<WeightLayout>],
        homes: &[Option<Home>],
    ) -> Option<ExpertPlacement> {
        let all = layouts.iter().zip(homes);
        let free = all.map(|(layout, home)| layout.clone().filter(|_| *home != Some(Home::Ram)));
        ExpertPlacement::of(plan, &free.collect::<Vec<_>>())
    }

    /// True for operators whose experts these are.
    pub fn serves(&self, op: &Op) -> bool {
        matches!(op, Op::Experts(o) if self.stacks.iter().any(|stack| stack[0] == o.gate))
    }

    /// Slots below which nothing would be found again: the experts of a token in two layers.
    pub fn least(&self, plan: &Plan) -> usize {
        let top_k = |op: &Op| if let Op::Experts(o) = op { Some(o.routing.top_k) } else { None };
        (2 * plan.ops.iter().filter_map(top_k).max().unwrap_or(1)).min(self.count)
    }

    /// What steps run, for sizes: routers run early, too, where experts are read ahead.
    pub fn steps<'a>(plan: &'a Plan, experts: Option<&ExpertPlacement>) -> Cow<'a, Plan> {
        match experts {
            Some(_) => Cow::Owned(lookahead(plan.clone(), &|_| true).0),
            None => Cow::Borrowed(plan),
        }
    }

    /// Experts of each stack, and how many of one a token takes.
    pub fn lengths(&self, plan: &Plan) -> (Vec<usize>, usize) {
        let of = |stack: &[WeightId; 3]| {
            let experts = plan.ops.iter().find_map(|op| match op {
                Op::Experts(o) if o.gate == stack[0] => Some((o.routing.experts, o.routing.top_k)),
                _ => None,
            });
            experts.unwrap_or_default()
        };
        let all: Vec<(usize, usize)> = self.stacks.iter().map(of).collect();
        (all.iter().map(|s| s.0).collect(), all.first().map_or(0, |s| s.1))
    }

    /// Bytes of its slots.
    pub fn slots_bytes(&self) -> u64 {
        self.slots as u64 * self.slot_bytes
    }
}
