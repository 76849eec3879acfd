//! What a backend implements. Plain operators are required; a fused one has a body that is its meaning.

use crate::{
    batch::{Batch, BatchSeq},
    kv::{KvLayout, KvTypes},
    op::*,
    plan::{Plan, WeightSpec},
    slot::Slot,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;

/// Why a backend could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Memory ran out, or would.
    #[error("{what} needs {need}, but {have} can be had: {advice}")]
    OutOfMemory {
        /// What asked for it.
        what: String,
        /// How much.
        need: String,
        /// How much there is.
        have: String,
        /// What the user can change.
        advice: &'static str,
    },
    /// The backend cannot run this operator or type.
    #[error("{backend} cannot run {what}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// Operator, type or size.
        what: String,
    },
    /// Reading a weight failed.
    #[error(transparent)]
    Weight(#[from] lamina_arch::ArchError),
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, BackendError>;

/// Sizes that a machine is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of one step.
    pub rows: usize,
    /// Most rows of one step that pass the final norm.
    pub selected: usize,
    /// Pages of each layer group.
    pub pages: Vec<usize>,
    /// Recurrent states, snapshots included; 0 for models without.
    pub states: usize,
    /// Number types of each layer group.
    pub kv: Vec<KvTypes>,
}

/// What a backend says of itself, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The device that it runs on, such as `cpu` or `cuda:0`.
    pub device: String,
    /// What its kernels are made for: an instruction set, or the architecture of a GPU.
    pub kernels: String,
    /// Host threads that it keeps.
    pub threads: usize,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What can be had now.
    pub free: u64,
    /// What there is.
    pub total: u64,
}

/// A kind of device: takes weights, and builds the machine that runs a plan.
pub trait Backend: Sized {
    /// A weight in the form its kernels want.
    type Weight: Send + Sync;
    /// Runs the operators of one plan.
    type Machine: Ops;

    /// Name in messages and reports, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Device, kernels and threads.
    fn about(&self) -> About {
        About { device: self.name().to_owned(), kernels: self.name().to_owned(), threads: 1 }
    }

    /// Memory of the device; none where it cannot say.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Rows of a step that it likes best, where the user asks for none.
    fn rows(&self) -> usize {
        512
    }

    /// Why it cannot run `plan`, as a part of a sentence that ends in it (`the operator scan`); none when it can. Asked
    /// before any weight is read.
    fn refuses(&self, _plan: &Plan) -> Option<String> {
        None
    }

    /// The type that matrices of `dtype` are multiplied in: their own, or a plain one that they are turned into.
    fn runs_as(&self, dtype: DType) -> DType {
        dtype
    }

    /// Bytes of device memory that a weight of `dtype` takes once it is uploaded.
    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        let (rows, cols) = spec.kind.shape();
        let dtype = self.runs_as(dtype);
        rows * dtype.bytes_for(cols).unwrap_or(cols * size_of::<f32>())
    }

    /// Bytes per second that the device reads from its memory, measured now; none where it cannot be measured.
    ///
    /// # Errors
    /// When there is no memory to read.
    fn read_bandwidth(&self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Takes a weight over; repacks it where the kernels want another order.
    ///
    /// # Errors
    /// When the tensor cannot be read, its type has no kernel, or memory does not suffice.
    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Self::Weight>;

    /// Bytes of one page of a layer group, over its layers.
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize;

    /// Puts plan, weights and memory together.
    ///
    /// # Errors
    /// When the arena or the cache cannot be had.
    fn machine(self, plan: &Plan, weights: Vec<Self::Weight>, limits: &Limits) -> Result<Self::Machine>;
}

/// The operators. Slots, weights and cache belong to the machine; the batch says which rows there are.
#[allow(missing_docs)] // each method runs the operator of its name, which is documented in `op`
pub trait Ops: Send {
    fn embed(&mut self, b: &Batch, o: &Embed) -> Result<()>;
    fn positions(&mut self, b: &Batch, o: &Positions) -> Result<()>;
    fn normalize(&mut self, b: &Batch, o: &Normalize) -> Result<()>;
    fn head_norm(&mut self, b: &Batch, o: &HeadNorm) -> Result<()>;
    fn linear(&mut self, b: &Batch, o: &Linear) -> Result<()>;
    fn add(&mut self, b: &Batch, o: &Add) -> Result<()>;
    fn copy(&mut self, b: &Batch, o: &Copy) -> Result<()>;
    fn activate(&mut self, b: &Batch, o: &Activate) -> Result<()>;
    fn gate(&mut self, b: &Batch, o: &Gate) -> Result<()>;
    fn apply(&mut self, b: &Batch, o: &Apply) -> Result<()>;
    fn rotate(&mut self, b: &Batch, o: &Rotate) -> Result<()>;
    fn store(&mut self, b: &Batch, o: &Store) -> Result<()>;
    fn attention(&mut self, b: &Batch, o: &Attention) -> Result<()>;
    fn latent_attend(&mut self, b: &Batch, o: &LatentAttend) -> Result<()>;
    fn experts(&mut self, b: &Batch, o: &Experts) -> Result<()>;
    fn conv(&mut self, b: &Batch, o: &Conv) -> Result<()>;
    fn delta_rule(&mut self, b: &Batch, o: &DeltaRule) -> Result<()>;
    fn scan(&mut self, b: &Batch, o: &Scan) -> Result<()>;
    fn gated_norm(&mut self, b: &Batch, o: &GatedNorm) -> Result<()>;
    fn adapt(&mut self, b: &Batch, o: &Adapt) -> Result<()>;
    fn add_adapted(&mut self, b: &Batch, o: &AddAdapted) -> Result<()>;
    fn select(&mut self, b: &Batch, o: &Select) -> Result<()>;

    fn project(&mut self, b: &Batch, o: &Project) -> Result<()> {
        let x = match o.norm {
            Some(norm) => {
                self.normalize(b, &Normalize { x: o.x, norm, out: o.temp })?;
                o.temp
            }
            None => o.x,
        };
        o.parts.iter().try_for_each(|&part| self.linear(b, &Linear { x, part }))
    }

    fn linear_add(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        let part = Part { weight: o.weight, bias: o.bias, out: o.temp };
        self.linear(b, &Linear { x: o.x, part })?;
        self.add(b, &Add { x: o.temp, scale: o.scale, into: o.into })
    }

    fn norm_add(&mut self, b: &Batch, o: &NormAdd) -> Result<()> {
        self.normalize(b, &Normalize { x: o.x, norm: o.norm, out: o.x })?;
        self.add(b, &Add { x: o.x, scale: o.scale, into: o.into })
    }

    fn glu(&mut self, b: &Batch, o: &Glu) -> Result<()> {
        self.project(b, &o.project)?;
        let gate = o.project.parts[0].out;
        let up = o.project.parts.get(1).map(|p| p.out);
        self.activate(b, &Activate { gate, up, act: o.act, out: gate })
    }

    fn attend(&mut self, b: &Batch, o: &Attend) -> Result<()> {
        for step in &o.before {
            match step {
                Step::HeadNorm(s) => self.head_norm(b, s)?,
                Step::Normalize(s) => self.normalize(b, s)?,
                Step::Rotate(s) => self.rotate(b, s)?,
                Step::Apply(s) => self.apply(b, s)?,
            }
        }
        self.store(b, &o.store)?;
        self.attention(b, &o.attention)
    }

    fn low_rank(&mut self, b: &Batch, o: &LowRank) -> Result<()> {
        if !b.seqs.iter().any(BatchSeq::adapted) {
            return Ok(());
        }
        let linear = |x, weight, out| Linear { x, part: Part { weight, bias: None, out } };
        self.linear(b, &linear(o.x, o.down, o.low))?;
        self.adapt(b, &Adapt { x: o.low, pieces: o.pieces.clone() })?;
        self.linear(b, &linear(o.low, o.up, o.wide))?;
        self.add_adapted(b, &AddAdapted { x: o.wide, scale: o.scale, into: o.into })
    }

    /// Copies the rows of `slot` that the batch has into `out`.
    fn read(&mut self, b: &Batch, slot: Slot, out: &mut Vec<f32>) -> Result<()>;

    /// Copies a page of every layer of a group; a shared page is copied before one of its sequences writes to it.
    fn copy_page(&mut self, group: u32, from: u32, to: u32) -> Result<()>;

    /// Copies a recurrent state of every layer, or clears `to` when `from` is none.
    fn copy_state(&mut self, from: Option<u32>, to: u32) -> Result<()>;

    /// Called around a step's operators with a key that is equal for steps of equal shape; a backend may record them.
    fn record(&mut self, _key: u64, body: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()>
    where
        Self: Sized,
    {
        body(self)
    }
}
