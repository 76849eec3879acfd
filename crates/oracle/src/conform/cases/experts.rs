//! Mixture of experts: every routing rule.

use crate::conform::bench::{Bench, Case};
use lamina_base::DType;
use lamina_plan::op::*;

const PLAIN: Routing = Routing {
    experts: 8,
    top_k: 2,
    score: RouterScore::Softmax,
    renorm: true,
    scale: 1.0,
    groups: None,
    weight_input: false,
    fewer: None,
    ranks: ExpertRanks::All,
};

/// Settings beside the routing rule.
#[derive(Clone, Copy)]
struct Extra {
    select_bias: bool,
    biases: bool,
    inner: usize,
    act: Act,
}

const EXTRA: Extra = Extra { select_bias: false, biases: false, inner: 48, act: Act::Silu };

pub fn cases() -> Vec<Case> {
    let (plain, biased) = (EXTRA, Extra { select_bias: true, ..EXTRA });
    let groups = |by| Some(ExpertGroups { count: 4, keep: 2, by });
    let fewer = |least, threshold| Some(FewerExperts { least, threshold });
    let oss = Act::SwigluClamped { alpha: 1.702, limit: 7.0 };
    let chosen = Routing { score: RouterScore::SoftmaxOfChosen, renorm: false, ..PLAIN };
    let sigmoid = Routing { score: RouterScore::Sigmoid, scale: 2.5, ..PLAIN };
    let all = [
        ("softmax", PLAIN, plain),
        ("softmax without renorm", Routing { renorm: false, scale: 1.3, ..PLAIN }, plain),
        ("best of groups", Routing { groups: groups(GroupScore::Best), renorm: false, ..PLAIN }, plain),
        ("softmax of chosen", chosen, plain),
        ("biases", Routing { top_k: 4, ..chosen }, Extra { biases: true, act: oss, ..plain }),
        ("sigmoid", sigmoid, biased),
        ("best two of groups", Routing { groups: groups(GroupScore::BestTwo), top_k: 3, ..sigmoid }, biased),
        (
            "weighted input",
            Routing { weight_input: true, top_k: 1, renorm: false, scale: 1.0, ..sigmoid },
            plain,
        ),
        ("all experts", Routing { top_k: 8, ..PLAIN }, Extra { act: Act::GeluTanh, ..plain }),
        ("one expert", Routing { experts: 1, top_k: 1, ..PLAIN }, plain),
        ("the heaviest", Routing { top_k: 4, ranks: ExpertRanks::First(3), ..sigmoid }, biased),
        ("the lightest", Routing { top_k: 4, ranks: ExpertRanks::Behind(3), ..sigmoid }, biased),
        ("fewer", Routing { top_k: 5, fewer: fewer(2, 0.4), renorm: false, ..PLAIN }, plain),
        ("fewer of a bias", Routing { top_k: 5, fewer: fewer(1, 0.9), ..sigmoid }, biased),
        (
            "the lightest of fewer",
            Routing { top_k: 4, fewer: fewer(1, 0.3), ranks: ExpertRanks::Behind(1), ..chosen },
            Extra { biases: true, act: oss, ..plain },
        ),
        (
            "none behind the first",
            Routing { fewer: fewer(1, 1.0), ranks: ExpertRanks::Behind(1), ..PLAIN },
            plain,
        ),
        (
            "fewer of weighted inputs",
            Routing { weight_input: true, top_k: 4, fewer: fewer(1, 0.5), scale: 1.0, ..sigmoid },
            Extra { biases: true, ..plain },
        ),
        ("odd sizes", Routing { experts: 5, top_k: 3, ..PLAIN }, Extra { inner: 33, ..plain }),
    ];
    let typed = [DType::F16, DType::Q8_0, DType::MXFP4, DType::Q4_K]
        .map(|t| experts("types", PLAIN, Extra { inner: 256, ..plain }, 256, t));
    let rules = all.into_iter().map(|(name, routing, extra)| experts(name, routing, extra, 80, DType::F32));
    rules.chain(typed).chain([ties()]).collect()
}

fn experts(name: &str, routing: Routing, extra: Extra, hidden: usize, dtype: DType) -> Case {
    let mut b = Bench::new(format!("experts {name} {dtype}"));
    let (x, logits, out) = (b.input(hidden), b.scaled_input(routing.experts, 2.0), b.slot(hidden));
    let (n, inner, act) = (routing.experts, extra.inner, extra.act);
    let (gate, up) = (b.experts(n, inner, hidden, dtype), b.experts(n, inner, hidden, dtype));
    let down = b.experts(n, hidden, inner, dtype);
    let select_bias = extra.select_bias.then(|| b.vector(n, 0.0, 0.5));
    let biases = extra.biases.then(|| ExpertBiases {
        gate: b.vector(n * inner, 0.0, 0.5),
        up: b.vector(n * inner, 0.0, 0.5),
        down: b.vector(n * hidden, 0.0, 0.5),
    });
    let held = HeldExperts::All;
    b.push(Experts { x, logits, select_bias, gate, up, down, biases, inner, act, held, routing, out });
    b.finish(out)
}

/// Equal logits: the experts with the lower numbers are chosen.
fn ties() -> Case {
    let mut b = Bench::new("experts with ties");
    let (x, logits, out) = (b.input(40), b.scaled_input(8, 0.0), b.slot(40));
    let (gate, up) = (b.experts(8, 48, 40, DType::F32), b.experts(8, 48, 40, DType::F32));
    let down = b.experts(8, 40, 48, DType::F32);
    let (inner, act, routing) = (48, Act::Silu, PLAIN);
    let held = HeldExperts::All;
    b.push(Experts {
        x,
        logits,
        select_bias: None,
        gate,
        up,
        down,
        biases: None,
        inner,
        act,
        held,
        routing,
        out,
    });
    b.finish(out)
}
