//! Builds the tiny plan of a case: inputs from a table of random rows, the operator, and its result.

use super::report::Rounds;
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    Plan, RowKind, Slot, SlotSpec, WeightId, WeightKind, WeightSpec,
    kv::{KvLayout, KvType, KvTypes, LayerState, Reach},
    op::{Embed, NormKind, NormOp, Op, RopeTable},
};

/// Rows of the tables that inputs come from.
pub const VOCAB: usize = 101;

/// Lengths of the sequences of most cases.
const LENGTHS: &[usize] = &[1, 2, 7, 64];

/// Lengths of the sequences where the context matters: the first one crosses two borders of units of attention, or one
/// where units are long.
fn long(attention_unit: usize) -> Vec<usize> {
    vec![(2 * attention_unit + 22).min(300), 33, 7]
}

/// The codes of a type of one byte per number that come nearest, for types that Lamina only reads.
fn nearest_codes(dtype: DType, numbers: &[f32]) -> Vec<u8> {
    let (codes, mut values): (Vec<u8>, _) = ((0..=u8::MAX).collect(), vec![0.0; 256]);
    lamina_quant::decode(dtype, &codes, &mut values).expect("a byte for each number");
    let finite: Vec<u8> = codes.into_iter().filter(|&code| values[usize::from(code)].is_finite()).collect();
    let far = |code: u8, number: f32| (values[usize::from(code)] - number).abs();
    let nearest = |&number: &f32| {
        finite
            .iter()
            .copied()
            .min_by(|&a, &b| far(a, number).total_cmp(&far(b, number)))
            .expect("finite codes")
    };
    numbers.iter().map(nearest).collect()
}

/// One plan with its weights.
pub struct Case {
    /// Operator and sizes.
    pub name: String,
    /// The result is in its logits slot.
    pub plan: Plan,
    /// In the order of the plan.
    pub weights: Vec<Tensor>,
    /// Lengths of the sequences.
    pub lengths: Vec<usize>,
    /// [`Case::fitted`] sets the lengths.
    long: bool,
    /// Types of the cache, for each layer group.
    pub kv: Vec<KvTypes>,
    /// What is rounded.
    pub rounds: Rounds,
}

impl Case {
    /// With the lengths that are long for a backend with such units of attention, where the case asks for that.
    pub fn fitted(mut self, attention_unit: usize) -> Case {
        if self.long {
            self.lengths = long(attention_unit);
        }
        self
    }
}

/// A case under construction.
pub struct Bench {
    name: String,
    seed: u64,
    ops: Vec<Op>,
    slots: Vec<SlotSpec>,
    weights: Vec<(WeightSpec, Tensor)>,
    ropes: Vec<RopeTable>,
    kv: KvLayout,
    lengths: Vec<usize>,
    long: bool,
    kv_type: KvType,
    rounds: Rounds,
}

impl Bench {
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let seed = name.bytes().fold(1, |h: u64, b| h.wrapping_mul(31).wrapping_add(b.into()));
        Bench {
            name,
            seed,
            ops: vec![],
            slots: vec![],
            weights: vec![],
            ropes: vec![],
            kv: KvLayout::default(),
            lengths: LENGTHS.to_vec(),
            long: false,
            kv_type: KvType::F32,
            rounds: Rounds::Float,
        }
    }

    /// With sequences that are long for the backend.
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// With sequences of these lengths.
    pub fn lengths(mut self, lengths: &[usize]) -> Self {
        self.lengths = lengths.to_vec();
        self
    }

    /// With a cache of this type.
    pub fn kv_type(mut self, kv_type: KvType) -> Self {
        (self.kv_type, self.rounds) = (kv_type, Rounds::Kv(kv_type));
        self
    }

    /// Even numbers between -1 and 1 (splitmix64).
    pub fn numbers(&mut self, n: usize) -> Vec<f32> {
        let mut one = || {
            self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..n).map(|_| one()).collect()
    }

    fn add(&mut self, kind: WeightKind, tensor: Tensor) -> WeightId {
        let name = format!("weight.{}", self.weights.len());
        self.weights.push((WeightSpec { name, kind }, tensor));
        WeightId((self.weights.len() - 1) as u32)
    }

    /// A slot with a row per row of the batch.
    pub fn slot(&mut self, width: usize) -> Slot {
        self.slot_of(width, RowKind::All)
    }

    pub fn slot_of(&mut self, width: usize, rows: RowKind) -> Slot {
        self.slots.push(SlotSpec { name: "value", width, rows });
        Slot((self.slots.len() - 1) as u16)
    }

    /// A slot of random rows, which depend on the tokens.
    pub fn input(&mut self, width: usize) -> Slot {
        self.scaled_input(width, 1.0)
    }

    /// A slot of random rows between `-scale` and `scale`.
    pub fn scaled_input(&mut self, width: usize, scale: f32) -> Slot {
        let (out, numbers) = (self.slot(width), self.numbers(VOCAB * width));
        let kind = WeightKind::Table { rows: VOCAB, cols: width };
        let table = self.add(kind, Tensor::from_f32("table", VOCAB, width, &numbers));
        self.push(Embed { table, scale, out });
        out
    }

    pub fn push(&mut self, op: impl Into<Op>) {
        self.ops.push(op.into());
    }

    /// Numbers around `center`, at most `spread` away.
    pub fn vector(&mut self, len: usize, center: f32, spread: f32) -> WeightId {
        let numbers: Vec<f32> = self.numbers(len).iter().map(|v| center + spread * v).collect();
        self.add(WeightKind::Vector { len }, Tensor::from_f32("vector", 1, len, &numbers))
    }

    /// A matrix that keeps the size of a row about the same.
    pub fn matrix(&mut self, rows: usize, cols: usize, dtype: DType) -> WeightId {
        let tensor = self.encoded(rows, cols, dtype);
        self.add(WeightKind::Matrix { rows, cols }, tensor)
    }

    pub fn table(&mut self, rows: usize, cols: usize, dtype: DType) -> WeightId {
        let tensor = self.encoded(rows, cols, dtype);
        self.add(WeightKind::Table { rows, cols }, tensor)
    }

    pub fn experts(&mut self, count: usize, rows: usize, cols: usize, dtype: DType) -> WeightId {
        let tensor = self.encoded(count * rows, cols, dtype);
        self.add(WeightKind::Stack { count, rows, cols }, tensor)
    }

    fn encoded(&mut self, rows: usize, cols: usize, dtype: DType) -> Tensor {
        let scale = (3.0 / cols as f32).sqrt();
        let numbers: Vec<f32> = self.numbers(rows * cols).iter().map(|v| v * scale).collect();
        if dtype == DType::F32 {
            return Tensor::from_f32("matrix", rows, cols, &numbers);
        }
        self.rounds = Rounds::Weights(dtype);
        let mut bytes = vec![0; numbers.len() / dtype.block_len() * dtype.block_bytes()];
        match dtype {
            DType::F8_E4M3 | DType::F8_E5M2 => bytes = nearest_codes(dtype, &numbers),
            _ => lamina_quant::encode(dtype, &numbers, None, &mut bytes).expect("cases have whole blocks"),
        }
        Tensor::from_bytes("matrix", dtype, rows, cols, bytes).expect("as many bytes as were made")
    }

    /// A norm of rows of `width`, with a weight, and a bias for layer norms.
    pub fn norm(&mut self, kind: NormKind, width: usize) -> NormOp {
        let weight = Some(self.vector(width, 1.0, 0.3));
        let bias = (kind == NormKind::Layer).then(|| self.vector(width, 0.0, 0.3));
        NormOp { kind, eps: 1e-5, weight, bias }
    }

    pub fn rope(&mut self, rope: RopeTable) -> usize {
        self.ropes.push(rope);
        self.ropes.len() - 1
    }

    /// A paged layer in a group of this reach.
    pub fn paged(&mut self, reach: Reach, layer: impl FnOnce(usize) -> LayerState) -> usize {
        let group = self.kv.group(reach);
        self.state(layer(group))
    }

    pub fn state(&mut self, state: LayerState) -> usize {
        self.kv.layers.push(state);
        self.kv.layers.len() - 1
    }

    /// The case whose result is in `out`.
    pub fn finish(self, out: Slot) -> Case {
        let (specs, tensors) = self.weights.into_iter().unzip();
        let vocab = self.slots[out.0 as usize].width;
        let plan = Plan {
            ops: self.ops,
            slots: self.slots,
            weights: specs,
            ropes: self.ropes,
            kv: self.kv,
            normed: out,
            logits: out,
            marks: vec![],
            hidden: vocab,
            tokens: VOCAB,
            vocab,
        };
        let kv = vec![self.kv_type.into(); plan.kv.groups.len()];
        let Bench { name, lengths, long, rounds, .. } = self;
        Case { name, plan, weights: tensors, lengths, long, kv, rounds }
    }
}
