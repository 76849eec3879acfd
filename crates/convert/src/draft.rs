//! A model on its way into a file: metadata, and tensors that are made when their turn comes.

use crate::error::{ConvertError, Result};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, HostTensor, ReadError};
use lamina_store::{Checkpoint, Metadata};
use std::sync::Arc;

/// Makes the values of a tensor.
pub type Make = Arc<dyn Fn() -> Result<Tensor> + Send + Sync>;

/// A tensor of a [`Draft`]. Only its name and shape are at hand; values are read or computed by [`Planned::values`].
#[derive(Clone)]
pub struct Planned {
    /// Name in the file.
    pub name: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Type that the values come in.
    pub dtype: DType,
    pub(crate) make: Make,
}

impl Planned {
    /// A tensor that `make` gives when asked.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        shape: Vec<usize>,
        make: impl Fn() -> Result<Tensor> + Send + Sync + 'static,
    ) -> Planned {
        Planned { name: name.into(), shape, dtype, make: Arc::new(make) }
    }

    /// A tensor that `make` computes in memory; refused where there is no room for that.
    pub(crate) fn computed(
        name: impl Into<String>,
        dtype: DType,
        shape: Vec<usize>,
        make: impl Fn() -> Result<Tensor> + Send + Sync + 'static,
    ) -> Planned {
        let name = name.into();
        let (title, numbers) = (name.clone(), shape.iter().product());
        Planned::new(name, dtype, shape, move || room(&title, numbers).and_then(|()| make()))
    }

    /// A tensor that lies in a file or in memory already.
    pub fn stored(tensor: HostTensor) -> Planned {
        let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
        Planned::new(name, dtype, shape, move || Ok(Tensor::new(vec![tensor.clone()])))
    }

    /// The values: rows of the last extent, all others laid one after another.
    ///
    /// # Errors
    /// When a source cannot be read, or gives another shape than was planned.
    pub fn values(&self) -> Result<Tensor> {
        let tensor = (self.make)()?;
        let (rows, cols) = (self.rows(), self.cols());
        // Vectors that get a second extent (one number for each head, one row for each group) come as one row.
        if tensor.rows() * tensor.cols != rows * cols || (tensor.cols != cols && tensor.rows() != 1) {
            let found = format!("is {} x {}, but {rows} x {cols} was planned", tensor.rows(), tensor.cols);
            return Err(ConvertError::invalid(format!("tensor `{}`", self.name), found));
        }
        if tensor.cols == cols {
            return Ok(tensor);
        }
        Ok(Tensor::from_f32(&self.name, rows, cols, &tensor.to_f32()?))
    }

    /// Length of a row.
    pub fn cols(&self) -> usize {
        *self.shape.last().unwrap_or(&1)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Number of values.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of the values in the type that they come in.
    pub fn bytes(&self) -> u64 {
        (self.elements() / self.dtype.block_len() * self.dtype.block_bytes()) as u64
    }
}

/// Refuses to compute tensor `name` of so many numbers where there is no memory for it and what it is computed from.
pub(crate) fn room(name: &str, numbers: usize) -> Result<()> {
    /// Of the numbers, at one time, in 32 bits.
    const COPIES: usize = 6;
    let bytes = numbers.saturating_mul(COPIES * size_of::<f32>());
    match lamina_reserve::affordable(bytes) {
        true => Ok(()),
        false => Err(ReadError::OutOfMemory { what: format!("tensor `{name}`"), bytes }.into()),
    }
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.name, self.dtype, self.shape)
    }
}

/// A whole model on its way into a GGUF file. Every tool of this crate makes one of these or changes one;
/// [`Draft::write`] makes the file.
#[derive(Clone, Debug)]
pub struct Draft {
    /// `general.architecture`.
    pub architecture: String,
    /// All keys of the file.
    pub metadata: Metadata,
    /// All tensors, in the order of the file.
    pub tensors: Vec<Planned>,
    /// The files that values come from.
    pub source: Arc<Checkpoint>,
    /// What a user should know.
    pub notes: Vec<String>,
}

impl Draft {
    /// The tensor `name`.
    pub fn tensor(&self, name: &str) -> Option<&Planned> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// Numbers in all tensors.
    pub fn params(&self) -> u64 {
        self.tensors.iter().map(|t| t.elements() as u64).sum()
    }

    /// A whole number of the architecture's own keys, such as `block_count`; of a list the first.
    pub(crate) fn count(&self, key: &str) -> Option<usize> {
        let value = self.metadata.get(&format!("{}.{key}", self.architecture))?;
        let number = match value {
            lamina_store::Value::Array(list) => list.iter().next()?.as_int(),
            one => one.as_int(),
        };
        usize::try_from(number?).ok()
    }
}
