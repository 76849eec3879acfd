//! What a backend is: it takes weights, and builds the machine that runs a plan.
//!
//! Whoever loads and runs models knows backends, weights and machines as [`Box<dyn Backend>`](Backend), [`BackendWeight`]
//! and `Box<dyn Ops>`: it is compiled once, and not for each backend. A call by way of a table for each operator is nothing
//! beside the operator.

use crate::{
    backend_weight::BackendWeight,
    layout::WeightLayout,
    op::{Op, Ops},
    panels::Panels,
    plan::{Plan, WeightSpec},
    reports::Reports,
    sizes::Sizes,
};
pub use crate::{
    error::{BackendError, Result},
    limits::Limits,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;

/// The grade of bit-equality: between which steps a row's bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Whatever else is in the batch, and however a sequence was cut into steps.
    AllBatches,
    /// In steps of the same shape only.
    PerShape,
}

/// What a backend can: types, operators, grade of bit-equality, and what is special to its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    /// Weight types that are multiplied as they are stored; the others run as [`Sizes::runs_as`] says.
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
    /// Its memory is that of the process: a limit on the process is one on it.
    pub shares_memory: bool,
    /// Rows of tables are read from their file when a token asks for them, and take no memory.
    pub reads_rows: bool,
    /// Machines take pages of layers that lie elsewhere, see [`Queue::bind_cache`](crate::Queue::bind_cache).
    pub binds_cache: bool,
    /// Machines compute some experts while others compute the rest, see
    /// [`Queue::expert_rows`](crate::Queue::expert_rows).
    pub parts_experts: bool,
    /// In an exported page, a layer's key heads lie one behind the other, each with as many bytes: pages of some heads can be
    /// joined.
    pub pages_by_head: bool,
}

impl Capabilities {
    /// Types and operators with bits of [`Grade::AllBatches`], units of 256 cells, and nothing special.
    pub fn new(types: Vec<DType>, ops: Vec<&'static str>) -> Capabilities {
        Capabilities {
            types,
            ops,
            bits: Grade::AllBatches,
            selects_cells: false,
            attention_unit: 256,
            shares_memory: false,
            reads_rows: false,
            binds_cache: false,
            parts_experts: false,
            pages_by_head: false,
        }
    }
}

/// A kind of device: takes weights, and builds the machine that runs a plan. What it says of itself is in [`Reports`], what
/// weights and machines take in [`Sizes`], and how others may write its matrices in [`Panels`].
pub trait Backend: Reports + Sizes + Send {
    /// Its types, operators and grade of bit-equality.
    fn capabilities(&self) -> Capabilities;

    /// Another handle on the same device and threads, for a second model beside the first; none where there can be one only.
    fn handle(&self) -> Option<Box<dyn Backend>> {
        None
    }

    /// Rows of a step that it prefers, where the user asks for none.
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

    /// Takes a weight over; repacks it where the kernels want another order. Others keep it in the backend's form until they
    /// hand it to [`Backend::machine`].
    ///
    /// # Errors
    /// When the tensor cannot be read, its type has no kernel, or memory does not suffice.
    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight>;

    /// The same weight for a second machine beside the first, without a copy of its numbers; none where it has to be
    /// uploaded again.
    fn share(&self, _weight: &BackendWeight) -> Option<BackendWeight> {
        None
    }

    /// Its matrices as panels; none where it takes them whole only.
    fn panels(&self) -> Option<&dyn Panels> {
        None
    }

    /// Puts plan, weights and memory together: what runs the operators of `plan`.
    ///
    /// # Errors
    /// When the arena or the cache cannot be had, or another backend made one of the weights.
    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>>;
}

impl dyn Backend + '_ {
    /// What of `plan` it does not run; none when it runs all of it. Fused operators that it lacks run as what they stand for.
    pub fn refusal(&self, plan: &Plan) -> Option<String> {
        let has = self.capabilities().ops;
        let missing = |name: &&str| Op::PLAIN.contains(name) && !has.contains(name);
        let operator = plan.ops.iter().map(Op::name).find(missing).map(|name| format!("the operator {name}"));
        operator.or_else(|| self.refuses(plan))
    }

    /// How a matrix of `dtype` lies in panels; none for other weights, and where matrices are taken whole only.
    pub fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        self.panels()?.layout(spec, dtype)
    }

    /// [`Backend::panels`] of a backend that gave a layout.
    ///
    /// # Errors
    /// When it takes matrices whole only.
    pub fn need_panels(&self) -> Result<&dyn Panels> {
        let what = "matrices in panels".to_owned();
        self.panels().ok_or(BackendError::Unsupported { backend: self.name(), what })
    }
}

impl<B: Backend + 'static> From<B> for Box<dyn Backend> {
    fn from(backend: B) -> Self {
        Box::new(backend)
    }
}
