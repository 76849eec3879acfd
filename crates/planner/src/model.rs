//! A model whose headers were read: what planning needs to know of it.

use lamina_base::DType;
use lamina_plan::{Backend, Plan, WeightKind, WeightSpec};

/// A model before any of its weights is read.
#[derive(Clone, Copy)]
pub struct ModelHeaders<'a> {
    /// What steps run, adapters included.
    pub plan: &'a Plan,
    /// Its weights, in the order of the plan.
    pub weights: &'a [WeightHeader],
    /// Tokens that it was made for.
    pub context: usize,
    /// A head that guesses its tokens.
    pub head: HeadSizes,
    /// Most rows of a step that have logits, where whoever steps asks for no more; none: as many as memory allows.
    pub logits: Option<usize>,
}

impl ModelHeaders<'_> {
    /// What the weights take on `backend`.
    pub fn sizes(&self, backend: &dyn Backend) -> Vec<WeightSize> {
        let all = self.plan.weights.iter().zip(self.weights);
        all.map(|(spec, stored)| WeightSize::of(backend, spec, stored)).collect()
    }
}

/// A weight in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightHeader {
    /// Its type, after requantization.
    pub dtype: DType,
    /// Bytes of memory that a table takes of which rows are read in its file; none where nobody reads them there.
    pub held_bytes: Option<usize>,
    /// It belongs to an adapter, and not to the model.
    pub of_adapter: bool,
}

/// What a head that guesses tokens takes beside a model on its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadSizes {
    /// Bytes of its own weights.
    pub bytes: u64,
    /// Bytes of the model's weights that it holds for itself where the model does not hold them.
    pub copies: u64,
    /// Bytes that its steps work in.
    pub working: u64,
    /// Bytes of one of its pages, of which it has as many as the longest layer group.
    pub page_bytes: usize,
    /// Steps select all of their rows for it.
    pub selects: bool,
}

impl HeadSizes {
    /// Bytes that it takes with so many pages, but for copies of the model's weights.
    pub fn own_bytes(&self, pages: usize) -> u64 {
        self.bytes + self.working + (pages * self.page_bytes) as u64
    }
}

/// What is known of a weight before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightSize {
    /// Its type, after requantization.
    pub dtype: DType,
    /// Bytes that it takes on the backend.
    pub bytes: u64,
    /// Bytes that it takes on a device beside the backend's own memory.
    pub device: u64,
    /// Bytes of it that are sent to that device in every step.
    pub sent: u64,
    /// It belongs to an adapter, and not to the model.
    pub of_adapter: bool,
}

impl WeightSize {
    /// The sizes of a weight on `backend`.
    pub fn of(backend: &dyn Backend, spec: &WeightSpec, stored: &WeightHeader) -> WeightSize {
        let WeightHeader { dtype, held_bytes, of_adapter } = *stored;
        let is_table = matches!(spec.kind, WeightKind::Table { .. });
        let in_file = held_bytes.filter(|_| is_table && !of_adapter && backend.capabilities().reads_rows);
        WeightSize {
            dtype,
            bytes: in_file.unwrap_or_else(|| backend.weight_bytes(spec, dtype)) as u64,
            device: backend.device_bytes(spec, dtype) as u64,
            sent: if of_adapter { 0 } else { backend.sent_bytes(spec, dtype) as u64 },
            of_adapter,
        }
    }

    /// Bytes where it is multiplied: on a device, or in the backend's own memory.
    pub fn any_bytes(&self) -> u64 {
        self.bytes.max(self.device)
    }
}
