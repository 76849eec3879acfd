//! Latent attention on tensor cores against a few lines in float64, over latents and rotary keys that the pages hold exactly.
//!
//! Matrices of the up-projections are ones and zeros in float32: queries reach the latents as they are, and mixed latents are
//! the result. What is left is what queries and weights in 16-bit parts lose.

use crate::common::exact::{attended, farthest, kept, queries, row};
use crate::common::steps::{encoded, look_ups, plan_of, rows_of, same_bits};
use lamina_base::DType;
use lamina_emu::{BlockOrder, Emu};
use lamina_plan::{
    KvLayout, KvType, LayerState, Plan, Slot, WeightId, WeightKind, WeightSpec, kv::Reach, op::LatentAttend,
};

/// Tokens: parts of three units of 64.
const LEN: usize = 150;

/// Most that a value may be beside float64, of the largest value, which is 1. A score of 576 products adds 72 parts in float32,
/// two of 16 numbers, each half a step of the sum at most: 2^-24 * 72 * 5 = 2e-5 for sums of 5 in the worst case, and a tenth
/// of it as errors fall. A weight differs by as much as its score does, and two bfloat16 lose 2^-17 of it: 8e-6. One part of
/// 16 bits alone would lose 2^-12 of a query, which makes 1e-3 of a score.
const MOST: f64 = 1e-5;

/// Heads, and widths of latents and rotary keys.
#[derive(Clone, Copy)]
struct Latents {
    heads: usize,
    rank: usize,
    rope: usize,
}

const SCALE: f32 = 0.2;
/// The slot of the result.
const OUT: Slot = Slot(3);

/// Queries, latents and rotary keys of each token.
struct Numbers {
    q: Vec<f32>,
    latents: Vec<f32>,
    ropes: Vec<f32>,
}

impl Numbers {
    fn new(s: Latents, kv_type: KvType) -> Numbers {
        Numbers {
            q: queries(LEN * s.heads * (s.rank + s.rope)),
            latents: kept(kv_type, 2, LEN * s.rank),
            ropes: kept(kv_type, 3, LEN * s.rope),
        }
    }

    /// What a head of a token attends to, in float64.
    fn attended(&self, s: Latents, token: usize, head: usize) -> Vec<f64> {
        let values: Vec<_> = (0..=token).map(|t| row(&self.latents, t, s.rank)).collect();
        let key = |(t, latent): (usize, &Vec<f64>)| [latent.clone(), row(&self.ropes, t, s.rope)].concat();
        let keys: Vec<_> = values.iter().enumerate().map(key).collect();
        attended(&row(&self.q, token * s.heads + head, s.rank + s.rope), &keys, &values, SCALE)
    }
}

/// Ones where a row's number is its column's, for each head.
fn unchanged(s: Latents) -> Vec<f32> {
    (0..s.heads * s.rank * s.rank).map(|i| f32::from(i / s.rank % s.rank == i % s.rank)).collect()
}

/// Three look-ups and an attention.
fn plan(s: Latents) -> Plan {
    let Latents { heads, rank, rope } = s;
    let widths = [heads * (rank + rope), rank, rope, heads * rank];
    let table = |i: usize| WeightKind::Table { rows: LEN, cols: widths[i] };
    let stack = WeightKind::Stack { count: heads, rows: rank, cols: rank };
    let mut kv = KvLayout::default();
    let group = kv.group(Reach::All);
    kv.layers.push(LayerState::Latent { group, rank, rope });
    let [q, latent, k_rope] = [Slot(0), Slot(1), Slot(2)];
    let [w_k, w_v] = [WeightId(3), WeightId(4)];
    let (nope, v_dim, scale) = (rank, rank, SCALE);
    let attend =
        LatentAttend { q, latent, k_rope, w_k, w_v, kv: 0, heads, nope, rope, v_dim, scale, out: OUT };
    let kinds = [table(0), table(1), table(2), stack, stack];
    plan_of(&widths, &kinds, kv, look_ups(3).chain([attend.into()]).collect(), OUT)
}

fn rows(device: &Emu, s: Latents, kv_type: KvType, numbers: &Numbers, steps: &[usize]) -> Vec<f32> {
    let ones = unchanged(s);
    let all = [&numbers.q, &numbers.latents, &numbers.ropes, &ones, &ones];
    let weight = |i: usize, spec: &WeightSpec| encoded(spec, DType::F32, all[i]);
    rows_of(device, &plan(s), weight, kv_type, steps)
}

/// Types of pages, those that stay with chains of fma among them.
fn conforms(s: Latents, types: &[KvType]) {
    for kv_type in types {
        let (numbers, name) = (Numbers::new(s, *kv_type), format!("{kv_type} {} {}", s.rank, s.rope));
        let device = Emu::default().with_tensor_cores();
        let got = rows(&device, s, *kv_type, &numbers, &[LEN]);
        let far = |(i, head): (usize, &[f32])| farthest(head, &numbers.attended(s, i / s.heads, i % s.heads));
        let error = got.chunks(s.rank).enumerate().map(far).fold(0.0, f64::max);
        println!("{name}: {error:.2e}");
        assert!(error <= MOST, "{name}: {error:e}");
        let cut = rows(&device, s, *kv_type, &numbers, &[70, 1, 8, 9, LEN - 89, 1]);
        assert!(same_bits(&got, &cut), "{name}: bits of steps");
        // Rows are done in chunks, for want of scratch memory, and blocks and threads backwards.
        let small = Emu::new(BlockOrder::Backwards).with_tensor_cores().with_memory(6 << 20);
        assert!(same_bits(&got, &rows(&small, s, *kv_type, &numbers, &[LEN])), "{name}: bits of chunks");
    }
}

/// Several rows share an operand of mma, of which the last one of a chunk has fewer.
#[test]
fn values_of_few_heads_are_those_of_float64_in_every_type() {
    let types: Vec<_> = KvType::ALL.iter().map(|(_, kv_type)| *kv_type).collect();
    conforms(Latents { heads: 5, rank: 80, rope: 32 }, &types);
}

/// Heads fill one operand of mma and a part of another one.
#[test]
fn values_of_many_heads_are_those_of_float64() {
    conforms(Latents { heads: 20, rank: 64, rope: 16 }, &[KvType::F16, KvType::F8]);
}

/// The widths of DeepSeek's models, which fill every step of every piece.
#[test]
fn values_of_wide_latents_are_those_of_float64() {
    conforms(Latents { heads: 2, rank: 512, rope: 64 }, &[KvType::F16, KvType::BF16]);
}
