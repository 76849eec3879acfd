//! From parts of a model's spec to the numbers of operators.

use crate::op;
use lamina_arch::spec;

impl From<&spec::Rope> for op::RopeTable {
    /// Without the pairing: weights are permuted to one of them when they are loaded.
    fn from(rope: &spec::Rope) -> Self {
        let long = rope.long.as_ref();
        op::RopeTable {
            dim: rope.dim,
            freqs: rope.freqs.clone(),
            long: long
                .map(|l| op::LongTable { freqs: l.freqs.clone(), original_context: l.original_context }),
            magnitude: rope.magnitude,
            axes: rope.axes.clone(),
        }
    }
}

impl From<&spec::Moe> for op::Routing {
    fn from(m: &spec::Moe) -> Self {
        op::Routing {
            experts: m.experts,
            top_k: m.top_k,
            score: m.score,
            renorm: m.renorm,
            scale: m.scale,
            groups: m.groups,
            weight_input: m.weight_input,
            fewer: None,
            ranks: op::ExpertRanks::All,
        }
    }
}
