//! What a backend is: it takes weights, and builds the machine that runs a plan.

pub use crate::{
    error::{BackendError, Result},
    limits::Limits,
};
use crate::{
    footprint::Footprint,
    kv::{KvLayout, KvTypes},
    layout::WeightLayout,
    op::Ops,
    plan::{Plan, WeightSpec},
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use std::ops::Range;

/// Writes panels of a matrix into memory that has room for exactly these.
pub type PanelFill<'a> = &'a (dyn Fn(Range<usize>, &mut [u8]) -> Result<()> + Sync);

/// The grade of bit-equality: between which steps a row's bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Whatever else is in the batch, and however a sequence was cut into steps.
    AllBatches,
    /// In steps of the same shape only.
    PerShape,
}

/// Types, operators and grade of bit-equality of a backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    /// Weight types that are multiplied as they are stored; the others run as [`Backend::runs_as`] says.
    pub types: Vec<DType>,
    /// Names of the operators that have an implementation of their own; fused ones that are missing run as what they
    /// stand for.
    pub ops: Vec<&'static str>,
    /// Grade of bit-equality.
    pub bits: Grade,
    /// Attention heeds [`KeptCells`](crate::KeptCells), so that caches of prompts can be compressed.
    pub selects_cells: bool,
    /// Cells that attention sums up as one unit before units are joined: tests cross borders of units, and no more of them
    /// than they need.
    pub attention_unit: usize,
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

/// What kernels gave for fixed operands, beside the bits that they should give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelBits {
    /// Kernels that were run.
    pub compared: usize,
    /// Names of those whose bits differ.
    pub differ: Vec<String>,
    /// Those that could not be run.
    pub left_out: Option<LeftOutKernels>,
}

/// Kernels that a device does not have beside those that plans launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutKernels {
    /// Their names.
    pub names: Vec<String>,
    /// Why it has none of them, in one line.
    pub why: String,
}

/// A kind of device: takes weights, and builds the machine that runs a plan.
pub trait Backend: Sized {
    /// A weight on the device, repacked for its kernels.
    type Weight: Send + Sync;
    /// Runs the operators of one plan.
    type Machine: Ops;

    /// Name in messages and reports, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Its types, operators and grade of bit-equality.
    fn capabilities(&self) -> Capabilities;

    /// Another handle on the same device and threads, for a second model beside the first; none where there can be one only.
    fn handle(&self) -> Option<Self> {
        None
    }

    /// Device, kernels and threads.
    fn about(&self) -> About {
        About { device: self.name().to_owned(), kernels: self.name().to_owned(), threads: 1 }
    }

    /// Names what computes which row and how pages lie, for pages that outlive the process.
    fn identity(&self) -> String {
        let About { device, kernels, threads: _ } = self.about();
        format!("{device} {kernels}")
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

    /// `plan` with its operators in the order in which machines run it best. All that an operator uses is written before it
    /// as it was, and marks have the rows that they had. Asked once, before anything is made of the plan.
    fn ordered(&self, plan: Plan) -> Plan {
        plan
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

    /// True where its memory is that of the process: a limit on the process is one on it.
    fn shares_memory(&self) -> bool {
        false
    }

    /// Bytes that a weight takes on a second device, of whose memory [`Backend::memory`] does not speak.
    fn device_bytes(&self, _spec: &WeightSpec, _dtype: DType) -> usize {
        0
    }

    /// Bytes of a weight that are sent to a second device in every step, which does not keep it.
    fn sent_bytes(&self, _spec: &WeightSpec, _dtype: DType) -> usize {
        0
    }

    /// True where rows of tables are read from their file when a token asks for them, and take no memory.
    fn reads_rows(&self) -> bool {
        false
    }

    /// Bytes per second that the device reads from its memory, measured now; none where it cannot be measured.
    ///
    /// # Errors
    /// When there is no memory to read.
    fn read_bandwidth(&self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Runs the kernels whose bits are the same on every device that works, and compares these with the bits that are kept;
    /// none where none are kept.
    ///
    /// # Errors
    /// When the device fails.
    fn kernel_bits(&self) -> Result<Option<KernelBits>> {
        Ok(None)
    }

    /// Takes a weight over; repacks it where the kernels want another order.
    ///
    /// # Errors
    /// When the tensor cannot be read, its type has no kernel, or memory does not suffice.
    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Self::Weight>;

    /// The same weight for a second machine beside the first, without a copy of its numbers; none where it has to be
    /// uploaded again.
    fn share(&self, _weight: &Self::Weight) -> Option<Self::Weight> {
        None
    }

    /// How a matrix of `dtype` lies in the device's memory; none for other weights, and where the backend takes matrices
    /// whole only.
    fn layout(&self, _spec: &WeightSpec, _dtype: DType) -> Option<WeightLayout> {
        None
    }

    /// Packs panels of a matrix of which [`Backend::layout`] speaks, counted over all matrices of a stack, into `out`:
    /// the bytes that [`Backend::upload`] would hold.
    ///
    /// # Errors
    /// When the tensor cannot be read, or the backend has no layout for it.
    fn pack(
        &self,
        spec: &WeightSpec,
        _tensor: &Tensor,
        _panels: Range<usize>,
        _out: &mut [u8],
    ) -> Result<()> {
        let what = format!("panels of `{}`", spec.name);
        Err(BackendError::Unsupported { backend: self.name(), what })
    }

    /// A matrix of `dtype` without its bytes: what is multiplied is bound before each operator, see [`Queue::bind`].
    ///
    /// # Errors
    /// When the backend has no layout for it.
    ///
    /// [`Queue::bind`]: crate::Queue::bind
    fn unbound(&self, spec: &WeightSpec, _dtype: DType) -> Result<Self::Weight> {
        let what = format!("`{}` without holding it", spec.name);
        Err(BackendError::Unsupported { backend: self.name(), what })
    }

    /// A matrix of `dtype` whose panels `fill` writes: `fill(panels, out)` is called by several threads at once, for
    /// panels counted as in [`Backend::pack`].
    ///
    /// # Errors
    /// Those of `fill`; when the backend has no layout for it, or memory does not suffice.
    fn upload_panels(&self, spec: &WeightSpec, _dtype: DType, _fill: PanelFill<'_>) -> Result<Self::Weight> {
        let what = format!("panels of `{}`", spec.name);
        Err(BackendError::Unsupported { backend: self.name(), what })
    }

    /// What the pages of a layer group are stored in, where `types` were asked for.
    fn stores_as(&self, _layout: &KvLayout, _group: usize, types: KvTypes) -> KvTypes {
        types
    }

    /// Bytes of one page of a layer group, over its layers that have memory of their own.
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize;

    /// True where machines take pages of layers that lie elsewhere, see [`Queue::bind_cache`].
    ///
    /// [`Queue::bind_cache`]: crate::Queue::bind_cache
    fn binds_cache(&self) -> bool {
        false
    }

    /// What [`Backend::machine`] would take for `plan` and `limits`, to the byte; none where the backend cannot say.
    ///
    /// # Errors
    /// When some size is more than an address can say.
    fn footprint(&self, _plan: &Plan, _limits: &Limits) -> Result<Option<Footprint>> {
        Ok(None)
    }

    /// Puts plan, weights and memory together.
    ///
    /// # Errors
    /// When the arena or the cache cannot be had.
    fn machine(self, plan: &Plan, weights: Vec<Self::Weight>, limits: &Limits) -> Result<Self::Machine>;
}
