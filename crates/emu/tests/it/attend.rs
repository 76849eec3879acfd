//! Attention on tensor cores against a few lines in float64, over keys and values that the pages hold exactly.
//!
//! The conformance kit allows as much as rounding to the type of the pages does. Here nothing is rounded on the way in, so
//! that what is lost by queries and weights in 16-bit parts shows.

use crate::common::exact::{attended, farthest, kept, queries, row};
use crate::common::steps::{encoded, look_ups, plan_of, rows_of, same_bits};
use lamina_base::DType;
use lamina_emu::Emu;
use lamina_plan::{
    KvLayout, KvType, LayerState, Plan, Slot, WeightKind, WeightSpec,
    kv::Reach,
    op::{Attend, Attention, Mask, Store},
};

/// Tokens: parts of three units of 64.
const LEN: usize = 150;

/// Most that a value may be beside float64, of the largest value, which is 1. A score of `dim` products adds `dim / 8` parts
/// in float32, each half a step of the sum at most: 2^-24 * 32 * 5 = 1e-5 for sums of 5 in the worst case, and a tenth of it as
/// errors fall. A weight differs by as much as its score does, and two bfloat16 lose 2^-17 of it: 8e-6. One part of 16 bits
/// alone would lose 2^-12 of a query, which makes 1e-3 of a score.
const MOST: f64 = 1e-5;

#[derive(Clone, Copy)]
struct Heads {
    count: usize,
    key_heads: usize,
    dim: usize,
}

/// Rows of queries, keys and values of each token.
struct Numbers {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Numbers {
    fn new(s: Heads, kv_type: KvType) -> Numbers {
        let stored = |seed| kept(kv_type, seed, LEN * s.key_heads * s.dim);
        Numbers { q: queries(LEN * s.count * s.dim), k: stored(2), v: stored(3) }
    }

    /// What a head of a token attends to, in float64.
    fn attended(&self, s: Heads, token: usize, head: usize) -> Vec<f64> {
        let key_head = head / (s.count / s.key_heads);
        let rows = |of| (0..=token).map(|t| row(of, t * s.key_heads + key_head, s.dim)).collect::<Vec<_>>();
        attended(&row(&self.q, token * s.count + head, s.dim), &rows(&self.k), &rows(&self.v), SCALE)
    }
}

const SCALE: f32 = 0.2;
/// The slot of the result.
const OUT: Slot = Slot(3);

/// Three look-ups and an attention.
fn plan(s: Heads) -> Plan {
    let widths = [s.count * s.dim, s.key_heads * s.dim, s.key_heads * s.dim, s.count * s.dim];
    let tables = [0, 1, 2].map(|i: usize| WeightKind::Table { rows: LEN, cols: widths[i] });
    let mut kv = KvLayout::default();
    let group = kv.group(Reach::All);
    kv.layers.push(LayerState::Paged { group, kv_heads: s.key_heads, dim: s.dim });
    let attention = Attention {
        q: Slot(0),
        kv: 0,
        heads: s.count,
        scale: SCALE,
        softcap: None,
        mask: Mask::Causal,
        sinks: None,
        alibi: None,
        alibi_factor: 1.0,
        sparsity: lamina_plan::AttentionSparsity::NONE,
        out: OUT,
    };
    let store = Store { k: Slot(1), v: Slot(2), kv: 0 };
    let attend = Attend { before: vec![], store, attention };
    plan_of(&widths, &tables, kv, look_ups(3).chain([attend.into()]).collect(), OUT)
}

fn rows(s: Heads, kv_type: KvType, numbers: &Numbers, steps: &[usize]) -> Vec<f32> {
    let tables = [&numbers.q, &numbers.k, &numbers.v];
    let weight = |i: usize, spec: &WeightSpec| encoded(spec, DType::F32, tables[i]);
    rows_of(&Emu::default().with_tensor_cores(), &plan(s), weight, kv_type, steps)
}

#[test]
fn values_are_those_of_float64_in_every_type() {
    let narrow = Heads { count: 6, key_heads: 2, dim: 80 };
    let wide = Heads { count: 2, key_heads: 1, dim: 256 };
    for (name, kv_type) in KvType::ALL {
        for s in [narrow, wide] {
            let numbers = Numbers::new(s, *kv_type);
            let got = rows(s, *kv_type, &numbers, &[LEN]);
            let far =
                |(i, head): (usize, &[f32])| farthest(head, &numbers.attended(s, i / s.count, i % s.count));
            let error = got.chunks(s.dim).enumerate().map(far).fold(0.0, f64::max);
            println!("{name} {}: {error:.2e}", s.dim);
            assert!(error <= MOST, "{name} {}: {error:e}", s.dim);
            let cut = rows(s, *kv_type, &numbers, &[70, 1, 8, 9, LEN - 89, 1]);
            assert!(same_bits(&got, &cut), "{name}: bits of steps");
        }
    }
}
