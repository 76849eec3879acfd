//! Mixture of experts: every routing rule.

use crate::{
    conform::bench::{Bench, Case},
    op::*,
};
use lamina_arch::spec::{Act, GroupScore, Groups, Moe, Score};
use lamina_base::DType;

const PLAIN: Moe = Moe {
    experts: 8,
    top_k: 2,
    inner: 48,
    act: Act::Silu,
    score: Score::Softmax,
    renorm: true,
    scale: 1.0,
    groups: None,
    weight_input: false,
    shared: None,
};

/// Settings beside the routing rule.
#[derive(Clone, Copy, Default)]
struct Extra {
    select_bias: bool,
    biases: bool,
}

pub fn cases() -> Vec<Case> {
    let (plain, biased) = (Extra::default(), Extra { select_bias: true, biases: false });
    let groups = |by| Some(Groups { count: 4, keep: 2, by });
    let oss = Act::SwigluClamped { alpha: 1.702, limit: 7.0 };
    let chosen = Moe { score: Score::SoftmaxOfChosen, renorm: false, ..PLAIN };
    let sigmoid = Moe { score: Score::Sigmoid, scale: 2.5, ..PLAIN };
    let all = [
        ("softmax", PLAIN, plain),
        ("softmax without renorm", Moe { renorm: false, scale: 1.3, ..PLAIN }, plain),
        ("best of groups", Moe { groups: groups(GroupScore::Best), renorm: false, ..PLAIN }, plain),
        ("softmax of chosen", chosen.clone(), plain),
        ("biases", Moe { act: oss, top_k: 4, ..chosen }, Extra { biases: true, ..plain }),
        ("sigmoid", sigmoid.clone(), biased),
        (
            "best two of groups",
            Moe { groups: groups(GroupScore::BestTwo), top_k: 3, ..sigmoid.clone() },
            biased,
        ),
        ("weighted input", Moe { weight_input: true, top_k: 1, renorm: false, scale: 1.0, ..sigmoid }, plain),
        ("all experts", Moe { top_k: 8, act: Act::GeluTanh, ..PLAIN }, plain),
        ("one expert", Moe { experts: 1, top_k: 1, ..PLAIN }, plain),
        ("odd sizes", Moe { experts: 5, top_k: 3, inner: 33, ..PLAIN }, plain),
    ];
    let typed = [DType::F16, DType::Q8_0, DType::MXFP4, DType::Q4_K]
        .map(|t| experts("types", &Moe { inner: 256, ..PLAIN }, plain, 256, t));
    let rules = all.iter().map(|(name, moe, extra)| experts(name, moe, *extra, 80, DType::F32));
    rules.chain(typed).chain([ties()]).collect()
}

fn experts(name: &str, moe: &Moe, extra: Extra, hidden: usize, dtype: DType) -> Case {
    let mut b = Bench::new(format!("experts {name} {dtype}"));
    let (x, logits, out) = (b.input(hidden), b.scaled_input(moe.experts, 2.0), b.slot(hidden));
    let (n, inner) = (moe.experts, moe.inner);
    let (gate, up) = (b.experts(n, inner, hidden, dtype), b.experts(n, inner, hidden, dtype));
    let down = b.experts(n, hidden, inner, dtype);
    let select_bias = extra.select_bias.then(|| b.vector(n, 0.0, 0.5));
    let biases = extra.biases.then(|| ExpertBiases {
        gate: b.vector(n * inner, 0.0, 0.5),
        up: b.vector(n * inner, 0.0, 0.5),
        down: b.vector(n * hidden, 0.0, 0.5),
    });
    b.push(Experts { x, logits, select_bias, gate, up, down, biases, moe: moe.clone(), out });
    b.finish(out)
}

/// Equal logits: the experts with the lower numbers are chosen.
fn ties() -> Case {
    let mut b = Bench::new("experts with ties");
    let (x, logits, out) = (b.input(40), b.scaled_input(8, 0.0), b.slot(40));
    let (gate, up) = (b.experts(8, 48, 40, DType::F32), b.experts(8, 48, 40, DType::F32));
    let down = b.experts(8, 40, 48, DType::F32);
    b.push(Experts { x, logits, select_bias: None, gate, up, down, biases: None, moe: PLAIN, out });
    b.finish(out)
}
