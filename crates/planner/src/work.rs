//! What each operator of a plan has to do: bytes that it reads and multiply-accumulates, for any number of rows.

use lamina_base::DType;
use lamina_plan::{
    AttentionSparsity, KvTypes, LayerState, Plan, Reach, RowKind, WeightId, WeightKind,
    op::{Op, Operands},
};

/// A weight as it is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightForm {
    /// The type that the kernels read.
    pub dtype: DType,
    /// Bytes in the kernels' form, of all matrices of a stack.
    pub bytes: u64,
}

/// Products with one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductWork {
    /// What the kernels read.
    pub dtype: DType,
    /// Matrices that there are: more than one for experts and for heads.
    pub matrices: usize,
    /// Matrices that each row is multiplied with.
    pub chosen: usize,
    /// Bytes of one matrix.
    pub bytes: f64,
    /// Multiply-accumulates of one matrix with one row.
    pub macs: f64,
}

impl ProductWork {
    /// Matrices that `rows` rows touch, on average and without favourites.
    pub fn touched(&self, rows: f64) -> f64 {
        let share = self.chosen as f64 / self.matrices.max(1) as f64;
        self.matrices as f64 * (1.0 - (1.0 - share.min(1.0)).powf(rows))
    }
}

/// What an operator reads of a sequence's past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PastWork {
    /// Nothing.
    None,
    /// Keys and values, or latents, of all positions that a row sees.
    Positions {
        /// How far back.
        reach: Reach,
        /// Bytes of the key and of the value of a position, read once for all rows of a sequence. A latent is both, and read
        /// once.
        bytes: (f64, f64),
        /// Multiply-accumulates of a row with a position: half are the key's.
        macs: f64,
        /// What rows leave out.
        sparsity: AttentionSparsity,
    },
    /// A state that every row reads and writes.
    State {
        /// Float32 numbers.
        numbers: f64,
    },
}

/// What an operator has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct OpWork {
    /// Rows that it computes.
    pub rows: RowKind,
    /// Its products.
    pub products: Vec<ProductWork>,
    /// What it reads of the past.
    pub past: PastWork,
    /// Numbers of a row that it reads or writes in slots.
    pub numbers: f64,
}

/// The work of all operators of `plan`, whose weights are `forms` and whose layer groups are stored in `kv`. Adapters are
/// left out: only the requests that ask for them pay for them.
pub fn works(plan: &Plan, forms: &[WeightForm], kv: &[KvTypes]) -> Vec<OpWork> {
    plan.ops.iter().map(|op| work(plan, op, forms, kv)).collect()
}

fn work(plan: &Plan, op: &Op, forms: &[WeightForm], kv: &[KvTypes]) -> OpWork {
    let slots = [op.reads(), op.writes()].concat();
    let rows = op.writes().last().map_or(RowKind::All, |s| plan.kind(*s));
    if matches!(op, Op::LowRank(_)) {
        return OpWork { rows, products: vec![], past: PastWork::None, numbers: 0.0 };
    }
    let chosen = match op {
        // How many fewer there are is not known before: counts that are kept do not say how many tokens they are of.
        Op::Experts(o) => Some(o.routing.ranks.of(o.routing.top_k).len()),
        _ => None,
    };
    let product = |w: WeightId| product(plan.weight(w).kind, forms[w.0 as usize], chosen);
    OpWork {
        rows,
        products: op.weights().into_iter().filter_map(product).collect(),
        past: past(plan, op, kv),
        numbers: slots.iter().map(|s| plan.width(*s) as f64).sum(),
    }
}

fn product(kind: WeightKind, form: WeightForm, chosen: Option<usize>) -> Option<ProductWork> {
    let (matrices, rows, cols) = match kind {
        WeightKind::Matrix { rows, cols } => (1, rows, cols),
        WeightKind::Stack { count, rows, cols } => (count, rows, cols),
        WeightKind::Table { .. } | WeightKind::Vector { .. } => return None,
    };
    Some(ProductWork {
        dtype: form.dtype,
        matrices,
        chosen: chosen.filter(|_| matrices > 1).unwrap_or(matrices),
        bytes: form.bytes as f64 / matrices.max(1) as f64,
        macs: (rows * cols) as f64,
    })
}

fn past(plan: &Plan, op: &Op, kv: &[KvTypes]) -> PastWork {
    let whole = AttentionSparsity::NONE;
    let (layer, heads, sparsity) = match op {
        Op::Attend(o) => (o.attention.kv, o.attention.heads, o.attention.sparsity),
        Op::Attention(o) => (o.kv, o.heads, o.sparsity),
        Op::LatentAttend(o) => (o.kv, o.heads, whole),
        Op::DeltaRule(o) => (o.kv, o.v_heads, whole),
        Op::Scan(o) => (o.kv, o.heads, whole),
        _ => return PastWork::None,
    };
    let bits = |dtype: lamina_plan::KvType| f64::from(dtype.dtype().bits()) / 8.0;
    match plan.kv.layers[layer] {
        LayerState::Paged { group, kv_heads, dim } => PastWork::Positions {
            reach: plan.kv.groups[group].reach,
            bytes: ((kv_heads * dim) as f64 * bits(kv[group].k), (kv_heads * dim) as f64 * bits(kv[group].v)),
            macs: (2 * heads * dim) as f64,
            sparsity,
        },
        LayerState::Latent { group, rank, rope } => PastWork::Positions {
            reach: plan.kv.groups[group].reach,
            bytes: ((rank + rope) as f64 * bits(kv[group].k), 0.0),
            macs: (heads * (2 * rank + rope)) as f64,
            sparsity,
        },
        LayerState::Recurrent { state, .. } => PastWork::State { numbers: state as f64 },
        LayerState::Elsewhere => PastWork::None,
    }
}
