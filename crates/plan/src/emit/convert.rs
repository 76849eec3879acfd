//! From the enums of a model's spec to those of operators.

use crate::op;
use lamina_arch::spec;

impl From<spec::NormKind> for op::NormKind {
    fn from(kind: spec::NormKind) -> Self {
        match kind {
            spec::NormKind::Rms => op::NormKind::Rms,
            spec::NormKind::Layer => op::NormKind::Layer,
        }
    }
}

impl From<spec::Mask> for op::Mask {
    fn from(mask: spec::Mask) -> Self {
        match mask {
            spec::Mask::Causal => op::Mask::Causal,
            spec::Mask::Window(n) => op::Mask::Window(n),
            spec::Mask::Chunk(n) => op::Mask::Chunk(n),
            spec::Mask::Full => op::Mask::Full,
        }
    }
}

impl From<spec::Temperature> for op::Temperature {
    fn from(t: spec::Temperature) -> Self {
        op::Temperature { scale: t.scale, floor: t.floor, offset: t.offset }
    }
}

impl From<spec::Act> for op::Act {
    fn from(act: spec::Act) -> Self {
        match act {
            spec::Act::Silu => op::Act::Silu,
            spec::Act::Gelu => op::Act::Gelu,
            spec::Act::GeluTanh => op::Act::GeluTanh,
            spec::Act::GeluQuick => op::Act::GeluQuick,
            spec::Act::Relu => op::Act::Relu,
            spec::Act::ReluSquared => op::Act::ReluSquared,
            spec::Act::Xielu { alpha_p, alpha_n, beta } => op::Act::Xielu { alpha_p, alpha_n, beta },
            spec::Act::SwigluClamped { alpha, limit } => op::Act::SwigluClamped { alpha, limit },
        }
    }
}

impl From<spec::HeadOrder> for op::HeadOrder {
    fn from(order: spec::HeadOrder) -> Self {
        match order {
            spec::HeadOrder::Grouped => op::HeadOrder::Grouped,
            spec::HeadOrder::Tiled => op::HeadOrder::Tiled,
        }
    }
}

impl From<&spec::Rope> for op::RopeTable {
    /// The order of pairs is settled when weights are loaded.
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
            score: m.score.into(),
            renorm: m.renorm,
            scale: m.scale,
            groups: m.groups.map(Into::into),
            weight_input: m.weight_input,
        }
    }
}

impl From<spec::Score> for op::Score {
    fn from(score: spec::Score) -> Self {
        match score {
            spec::Score::Softmax => op::Score::Softmax,
            spec::Score::SoftmaxOfChosen => op::Score::SoftmaxOfChosen,
            spec::Score::Sigmoid => op::Score::Sigmoid,
        }
    }
}

impl From<spec::Groups> for op::Groups {
    fn from(g: spec::Groups) -> Self {
        let by = match g.by {
            spec::GroupScore::Best => op::GroupScore::Best,
            spec::GroupScore::BestTwo => op::GroupScore::BestTwo,
        };
        op::Groups { count: g.count, keep: g.keep, by }
    }
}
