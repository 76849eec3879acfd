//! A named tensor in host memory or in a file.

use crate::{DType, ReadError, StoredBytes};

/// A tensor as a checkpoint stores it: name, type, shape and bytes. Rows are contiguous.
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// Name for messages; for a model's tensor the name in its file.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first; the last one is contiguous. Empty for a scalar.
    pub shape: Vec<usize>,
    /// Exactly `dtype.bytes_for(shape.product())` bytes, little endian.
    pub bytes: StoredBytes,
}

/// Shape and bytes that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{name}` of type {dtype} and shape {shape:?} needs {need}, but {have} bytes are there")]
pub struct ShapeError {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    need: String,
    have: usize,
}

impl HostTensor {
    /// Checks that `bytes` is what `dtype` and `shape` ask for.
    ///
    /// # Errors
    /// When the last extent holds no whole number of blocks, the size overflows, or `bytes` has another length.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        shape: Vec<usize>,
        bytes: impl Into<StoredBytes>,
    ) -> Result<Self, ShapeError> {
        let bytes = bytes.into();
        let need = Self::bytes_needed(dtype, &shape);
        if need == Some(bytes.len()) {
            return Ok(HostTensor { name: name.into(), dtype, shape, bytes });
        }
        let need =
            need.map_or(format!("whole blocks of {} elements", dtype.block_len()), |n| format!("{n} bytes"));
        Err(ShapeError { name: name.into(), dtype, shape, need, have: bytes.len() })
    }

    /// A float32 tensor that owns its values.
    ///
    /// # Panics
    /// When `values` does not have the product of `shape` elements.
    pub fn from_f32(name: impl Into<String>, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = bytemuck::cast_slice::<_, u8>(values).to_vec().into();
        assert_eq!(values.len(), shape.iter().product::<usize>(), "values fill the shape");
        HostTensor { name: name.into(), dtype: DType::F32, shape, bytes }
    }

    fn bytes_needed(dtype: DType, shape: &[usize]) -> Option<usize> {
        let cols = *shape.last().unwrap_or(&1);
        let rows = shape.iter().rev().skip(1).try_fold(1usize, |n, &d| n.checked_mul(d))?;
        dtype.bytes_for(cols)?.checked_mul(rows)
    }

    /// Length of the contiguous extent; 1 for a scalar.
    pub fn cols(&self) -> usize {
        *self.shape.last().unwrap_or(&1)
    }

    /// Product of all extents but the last.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.cols() / self.dtype.block_len() * self.dtype.block_bytes()
    }

    /// The same tensor with its bytes in memory.
    ///
    /// # Errors
    /// When its file cannot be read or was changed, or there is no memory.
    pub fn fetched(&self) -> Result<HostTensor, ReadError> {
        let bytes = self.bytes.fetched(&self.label())?;
        Ok(HostTensor { bytes: bytes.into(), ..self.clone() })
    }

    /// What messages call it.
    pub fn label(&self) -> String {
        format!("tensor `{}`", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    #[test]
    fn wrong_sizes_are_named() {
        let e = HostTensor::new("blk.0.w", DType::Q4_0, vec![2, 40], Bytes::from(vec![0; 18]))
            .expect_err("40 is no multiple of 32");
        assert!(e.to_string().contains("blk.0.w") && e.to_string().contains("blocks of 32"));
        assert!(HostTensor::new("w", DType::F16, vec![2, 3], Bytes::from(vec![0; 12])).is_ok());
    }
}
