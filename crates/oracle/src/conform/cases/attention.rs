//! Attention: head widths, grouped queries, masks, and what else changes scores.

use crate::conform::bench::{Bench, Case};
use lamina_plan::{
    AttentionSparsity,
    kv::{KvType, LayerState, Reach},
    op::*,
};

/// Heads, key heads and width of a head.
#[derive(Clone, Copy)]
struct HeadShape {
    heads: usize,
    kv_heads: usize,
    dim: usize,
}

const SHAPES: &[HeadShape] = &[
    HeadShape { heads: 4, kv_heads: 4, dim: 16 },
    HeadShape { heads: 8, kv_heads: 2, dim: 32 },
    HeadShape { heads: 8, kv_heads: 1, dim: 64 },
    HeadShape { heads: 3, kv_heads: 1, dim: 80 },
    HeadShape { heads: 6, kv_heads: 3, dim: 96 },
    HeadShape { heads: 2, kv_heads: 2, dim: 128 },
    HeadShape { heads: 8, kv_heads: 1, dim: 256 },
    HeadShape { heads: 2, kv_heads: 2, dim: 192 },
    HeadShape { heads: 5, kv_heads: 5, dim: 24 },
    // More query heads to a key head than a tile of 16 rows has.
    HeadShape { heads: 21, kv_heads: 1, dim: 16 },
];

const COMMON: HeadShape = HeadShape { heads: 8, kv_heads: 2, dim: 48 };

/// What changes scores.
#[derive(Clone, Copy)]
struct ScoreRule {
    softcap: Option<f32>,
    mask: Mask,
    sinks: bool,
    alibi: Option<(f32, f32)>,
    sparsity: AttentionSparsity,
}

const PLAIN: ScoreRule = ScoreRule {
    softcap: None,
    mask: Mask::Causal,
    sinks: false,
    alibi: None,
    sparsity: AttentionSparsity::NONE,
};

/// Those that are run over pages in 16 bits, too.
const HALF_RULES: [&str; 6] =
    ["window 16", "window 129", "chunk 50", "full alibi", "sinks and window", "softcap"];

/// Every score rule, by name.
const RULES: &[(&str, ScoreRule)] = &[
    ("window 16", ScoreRule { mask: Mask::Window(16), ..PLAIN }),
    ("window 1", ScoreRule { mask: Mask::Window(1), ..PLAIN }),
    ("window 129", ScoreRule { mask: Mask::Window(129), ..PLAIN }),
    ("chunk 32", ScoreRule { mask: Mask::Chunk(32), ..PLAIN }),
    ("chunk 50", ScoreRule { mask: Mask::Chunk(50), ..PLAIN }),
    ("full", ScoreRule { mask: Mask::Full, ..PLAIN }),
    ("full alibi", ScoreRule { mask: Mask::Full, alibi: Some((8.0, 1.0)), ..PLAIN }),
    ("sinks", ScoreRule { sinks: true, ..PLAIN }),
    ("sinks and window", ScoreRule { sinks: true, mask: Mask::Window(20), ..PLAIN }),
    ("softcap", ScoreRule { softcap: Some(2.0), ..PLAIN }),
    ("alibi", ScoreRule { alibi: Some((8.0, 1.0)), ..PLAIN }),
    ("alibi with factor", ScoreRule { alibi: Some((6.0, 0.25)), ..PLAIN }),
];

/// A case for each head shape, over pages of a type.
fn shapes(name: &str, kv_type: KvType) -> impl Iterator<Item = Case> {
    SHAPES.iter().map(move |s| {
        let bench = Bench::new(format!("attend {}:{} {}{name}", s.heads, s.kv_heads, s.dim)).kv_type(kv_type);
        attend(bench, *s, PLAIN, |_, _, _| vec![])
    })
}

/// A long case for each of `rules`, over pages of a type.
fn rules<'a>(
    rules: impl Iterator<Item = &'a (&'static str, ScoreRule)>,
    name: &str,
    kv_type: KvType,
) -> impl Iterator<Item = Case> {
    rules.map(move |(rule_name, rule)| {
        let bench = Bench::new(format!("attend {rule_name}{name}")).long().kv_type(kv_type);
        attend(bench, COMMON, *rule, |_, _, _| vec![])
    })
}

pub fn cases() -> Vec<Case> {
    let whole = shapes("", KvType::F32).chain(rules(RULES.iter(), "", KvType::F32));
    // Backends read pages in 16 bits by other kernels than those in float32; not every rule again, which take long.
    let some = RULES.iter().filter(|(name, _)| HALF_RULES.contains(name));
    let half = shapes(" f16", KvType::F16).chain(rules(some, " f16", KvType::F16));
    let odd = HeadShape { heads: 6, ..COMMON };
    let alibi = ScoreRule { alibi: Some((8.0, 1.0)), ..PLAIN };
    let odd_alibi = attend(Bench::new("attend alibi 6 heads"), odd, alibi, |_, _, _| vec![]);
    let kv = KvType::ALL.iter().flat_map(|&(n, t)| {
        [COMMON, HeadShape { dim: 32, ..COMMON }, HeadShape { dim: 128, ..COMMON }].map(|s| {
            let bench = Bench::new(format!("attend {n} {}", s.dim)).long().kv_type(t);
            attend(bench, s, PLAIN, |_, _, _| vec![])
        })
    });
    whole.chain(half).chain([odd_alibi]).chain(kv).chain(before()).chain(rotations()).collect()
}

/// A plain case on `bench`.
pub fn plain(bench: Bench) -> Case {
    attend(bench, COMMON, PLAIN, |_, _, _| vec![])
}

/// Rotates queries and keys.
fn turns(b: &mut Bench, s: HeadShape, [q, k, _]: [lamina_plan::Slot; 3]) -> Vec<Prepare> {
    let rope = b.rope(rope(s.dim, false));
    let turn = |(x, heads)| Prepare::Rotate(Rotate { x, heads, start: 0, rope });
    [(q, s.heads), (k, s.kv_heads)].map(turn).into()
}

/// A case with rotated queries and keys on `bench`.
pub fn turned(bench: Bench) -> Case {
    attend(bench, COMMON, PLAIN, turns)
}

/// The same with an extra logit for each head.
pub fn turned_sinking(bench: Bench) -> Case {
    attend(bench, COMMON, ScoreRule { sinks: true, softcap: Some(4.0), ..PLAIN }, turns)
}

/// The same with more query heads to a key head than a kernel takes at once.
pub fn turned_crowded(bench: Bench) -> Case {
    attend(bench, HeadShape { heads: 71, kv_heads: 1, dim: 32 }, PLAIN, turns)
}

/// Cases whose rows leave out what `sparsity` says, on benches that `bench` gives.
pub fn sparse(bench: impl Fn() -> Bench, sparsity: AttentionSparsity) -> Vec<Case> {
    let plain = ScoreRule { sparsity, ..PLAIN };
    let cases = [
        (COMMON, plain),
        (COMMON, ScoreRule { sinks: true, softcap: Some(4.0), ..plain }),
        (HeadShape { heads: 3, kv_heads: 3, dim: 24 }, plain),
        // More query heads to a key head than a kernel takes at once.
        (HeadShape { heads: 71, kv_heads: 1, dim: 8 }, plain),
    ];
    cases.map(|(shape, rule)| attend(bench(), shape, rule, |_, _, _| vec![])).into()
}

/// A case with a window on `bench`.
pub fn windowed(bench: Bench) -> Case {
    masked(bench, Mask::Window(16))
}

/// A case with a mask on `bench`.
pub fn masked(bench: Bench, mask: Mask) -> Case {
    attend(bench, COMMON, ScoreRule { mask, ..PLAIN }, |_, _, _| vec![])
}

/// An attention whose steps before come from `before` of queries, keys and values.
fn attend(
    mut b: Bench,
    s: HeadShape,
    scores: ScoreRule,
    before: impl FnOnce(&mut Bench, HeadShape, [lamina_plan::Slot; 3]) -> Vec<Prepare>,
) -> Case {
    let (q, k) = (b.scaled_input(s.heads * s.dim, 1.5), b.scaled_input(s.kv_heads * s.dim, 1.5));
    let (v, out) = (b.input(s.kv_heads * s.dim), b.slot(s.heads * s.dim));
    let reach = match scores.mask {
        Mask::Causal | Mask::Strict | Mask::Full => Reach::All,
        Mask::Window(n) => Reach::Window(n),
        Mask::Chunk(n) => Reach::Chunk(n),
    };
    let kv = b.paged(reach, |group| LayerState::Paged { group, kv_heads: s.kv_heads, dim: s.dim });
    let before = before(&mut b, s, [q, k, v]);
    let sinks = scores.sinks.then(|| b.vector(s.heads, 0.5, 2.0));
    let attention = Attention {
        q,
        kv,
        heads: s.heads,
        scale: (s.dim as f32).powf(-0.5) * 1.3,
        softcap: scores.softcap,
        mask: scores.mask,
        sinks,
        alibi: scores.alibi.map(|a| a.0),
        alibi_factor: scores.alibi.map_or(1.0, |a| a.1),
        sparsity: scores.sparsity,
        out,
    };
    b.push(Attend { before, store: Store { k, v, kv }, attention });
    b.finish(out)
}

/// A rotary embedding of `dim` dimensions.
fn rope(dim: usize, long: bool) -> RopeTable {
    let freqs =
        |base: f32| (0..dim / 2).map(|i| base.powf(-((2 * i) as f32) / dim as f32)).collect::<Vec<_>>();
    let long = long.then(|| LongTable { freqs: freqs(77.0), original_context: 40 });
    RopeTable { dim, freqs: freqs(10_000.0), long, magnitude: 1.1, axes: vec![] }
}

/// Norms, clipping and temperature around the rotation, in the orders that families have.
fn before() -> Vec<Case> {
    let head = |b: &mut Bench, s: HeadShape, [q, k, _]: [lamina_plan::Slot; 3]| {
        let (norm, rope) = (b.norm(NormKind::Rms, s.dim), b.rope(rope(s.dim, false)));
        let normed = [(q, s.heads), (k, s.kv_heads)]
            .map(|(x, heads)| Prepare::HeadNorm(HeadNorm { x, heads, norm, weight_per_head: false }));
        let turned = [(q, s.heads), (k, s.kv_heads)]
            .map(|(x, heads)| Prepare::Rotate(Rotate { x, heads, start: 0, rope }));
        [normed, turned].concat()
    };
    let full = |b: &mut Bench, s: HeadShape, [q, k, v]: [lamina_plan::Slot; 3]| {
        let (for_q, for_k) =
            (b.norm(NormKind::Layer, s.heads * s.dim), b.norm(NormKind::Layer, s.kv_heads * s.dim));
        let mut steps: Vec<Prepare> =
            [q, k, v].map(|x| Prepare::Apply(Apply { x, map: Map::Clip { low: -0.8, high: 0.8 } })).into();
        steps.extend(
            [(q, for_q), (k, for_k)].map(|(x, norm)| Prepare::Normalize(Normalize { x, norm, out: x })),
        );
        steps
    };
    let warm = |_: &mut Bench, _: HeadShape, [q, _, _]: [lamina_plan::Slot; 3]| {
        let t = QueryScale { scale: 0.1, floor: 8.0, offset: 0.0 };
        vec![Prepare::Apply(Apply { x: q, map: Map::Temperature(t) })]
    };
    vec![
        attend(Bench::new("attend head norm and rope"), COMMON, PLAIN, head),
        attend(Bench::new("attend clip and full norm"), COMMON, PLAIN, full),
        attend(Bench::new("attend temperature"), COMMON, PLAIN, warm),
    ]
}

fn rotations() -> Vec<Case> {
    let turn = |part: usize, long: bool| {
        move |b: &mut Bench, s: HeadShape, [q, k, _]: [lamina_plan::Slot; 3]| {
            let rope = b.rope(rope(part, long));
            [(q, s.heads), (k, s.kv_heads)]
                .map(|(x, heads)| Prepare::Rotate(Rotate { x, heads, start: 0, rope }))
                .into()
        }
    };
    let axes = |b: &mut Bench, s: HeadShape, [q, k, _]: [lamina_plan::Slot; 3]| {
        let axes = (0..s.dim / 2).map(|i| [0, 1, 2, 1][i % 4]).collect();
        let rope = b.rope(RopeTable { axes, ..rope(s.dim, false) });
        let turn = |x, heads| Prepare::Rotate(Rotate { x, heads, start: 0, rope });
        vec![turn(q, s.heads), turn(k, s.kv_heads)]
    };
    let far = Bench::new("attend long rope").long();
    let mut b = Bench::new("rotate from the middle");
    let x = b.input(3 * 40);
    let table = b.rope(rope(16, false));
    b.push(Rotate { x, heads: 3, start: 24, rope: table });
    vec![
        attend(Bench::new("attend rope"), COMMON, PLAIN, turn(COMMON.dim, false)),
        attend(Bench::new("attend partial rope"), COMMON, PLAIN, turn(12, false)),
        attend(Bench::new("attend rope of two"), COMMON, PLAIN, turn(2, false)),
        attend(far, COMMON, PLAIN, turn(COMMON.dim, true)),
        attend(Bench::new("attend rope of three axes"), COMMON, PLAIN, axes),
        b.finish(x),
    ]
}
