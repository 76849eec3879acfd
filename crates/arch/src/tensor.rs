//! A weight as the plan wants it: rows that may be cut, stacked and reordered views of the file's tensors.

use crate::error::{ArchError, Result};
use lamina_base::{Bytes, DType, HostTensor};
use std::{fmt, ops::Range, sync::Arc};

/// Told of bytes that a backend has its own form of, so that their pages can be given back to the system.
#[derive(Clone)]
struct OnRepacked(Arc<Release>);

type Release = dyn Fn(&[u8]) + Send + Sync;

impl fmt::Debug for OnRepacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRepacked")
    }
}

/// A matrix whose rows are views into one or several stored tensors. Nothing is copied.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in the checkpoint, for messages.
    pub name: String,
    /// Type of every row.
    pub dtype: DType,
    /// Numbers per row.
    pub cols: usize,
    /// Stacked in order; all of the same type and width.
    parts: Vec<HostTensor>,
    /// Stored row of each logical row; none means in order.
    order: Option<Vec<u32>>,
    on_repacked: Option<OnRepacked>,
}

impl Tensor {
    /// The rows of `parts`, one after another.
    ///
    /// # Panics
    /// When `parts` is empty or its types or widths differ; the resolver checks that before.
    pub fn new(parts: Vec<HostTensor>) -> Tensor {
        let first = parts.first().expect("at least one part");
        assert!(parts.iter().all(|p| p.dtype == first.dtype && p.cols() == first.cols()), "parts are alike");
        Tensor {
            name: first.name.clone(),
            dtype: first.dtype,
            cols: first.cols(),
            order: None,
            parts,
            on_repacked: None,
        }
    }

    /// The same tensor with logical row `i` taken from row `order[i]`.
    pub fn reordered(mut self, order: Vec<u32>) -> Tensor {
        self.order = Some(match self.order {
            Some(old) => order.iter().map(|&i| old[i as usize]).collect(),
            None => order,
        });
        self
    }

    /// The rows of several tensors, one after another; as float32 where their types differ.
    ///
    /// # Errors
    /// When they have different widths, or a type that has to change cannot be decoded.
    ///
    /// # Panics
    /// When `tensors` is empty.
    pub fn stacked(tensors: &[Tensor]) -> Result<Tensor> {
        let first = tensors.first().expect("at least one tensor");
        if let Some(other) = tensors.iter().find(|t| t.cols != first.cols) {
            return Err(ArchError::Shape {
                name: other.name.clone(),
                found: format!("rows of {}", other.cols),
                want: format!("rows of {} as `{}`", first.cols, first.name),
            });
        }
        if tensors.iter().any(|t| t.dtype != first.dtype) {
            let values: Vec<f32> = tensors.iter().map(Tensor::to_f32).collect::<Result<Vec<_>>>()?.concat();
            return Ok(Tensor::from_f32(&first.name, values.len() / first.cols.max(1), first.cols, &values));
        }
        let (mut parts, mut order, mut before) = (vec![], vec![], 0u32);
        for t in tensors {
            let stored: usize = t.parts.iter().map(HostTensor::rows).sum();
            let rows = (0..t.rows() as u32).map(|i| t.order.as_ref().map_or(i, |o| o[i as usize]));
            order.extend(rows.map(|i| before + i));
            parts.extend(t.parts.iter().cloned());
            before += stored as u32;
        }
        Ok(Tensor::new(parts).reordered(order))
    }

    /// Number of logical rows.
    pub fn rows(&self) -> usize {
        self.order.as_ref().map_or_else(|| self.parts.iter().map(HostTensor::rows).sum(), Vec::len)
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.cols / self.dtype.block_len() * self.dtype.block_bytes()
    }

    /// Encoded bytes of logical row `i`.
    ///
    /// # Panics
    /// When `i` is not below [`Tensor::rows`].
    pub fn row(&self, i: usize) -> &[u8] {
        let mut at = self.order.as_ref().map_or(i, |o| o[i] as usize);
        let n = self.row_bytes();
        for part in &self.parts {
            if at < part.rows() {
                return &part.bytes[at * n..(at + 1) * n];
            }
            at -= part.rows();
        }
        panic!("row {i} of {}", self.rows())
    }

    /// The same tensor, whose repacked bytes are told to `release`.
    pub fn releasing(mut self, release: impl Fn(&[u8]) + Send + Sync + 'static) -> Tensor {
        self.on_repacked = Some(OnRepacked(Arc::new(release)));
        self
    }

    /// Says that a backend has its own form of logical rows `rows`. Rows in another order than stored stay as they are.
    pub fn repacked(&self, rows: Range<usize>) {
        let (Some(OnRepacked(release)), None) = (&self.on_repacked, &self.order) else { return };
        let (n, mut first) = (self.row_bytes(), 0);
        for part in &self.parts {
            let (from, to) = (rows.start.max(first), rows.end.min(first + part.rows()));
            if from < to {
                release(&part.bytes[(from - first) * n..(to - first) * n]);
            }
            first += part.rows();
        }
    }

    /// All values as float32.
    ///
    /// # Errors
    /// When the type cannot be decoded.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut out = vec![0.0; self.rows() * self.cols];
        for (i, row) in out.chunks_exact_mut(self.cols.max(1)).enumerate() {
            lamina_quant::decode(self.dtype, self.row(i), row)?;
        }
        Ok(out)
    }

    /// The error that this tensor has another shape than `want`.
    pub(crate) fn shape_error(&self, want: String) -> ArchError {
        let found = format!("{} x {}", self.rows(), self.cols);
        ArchError::Shape { name: self.name.clone(), found, want }
    }

    /// The stored pieces, to release their pages once a backend has its own form of the weight.
    pub fn parts(&self) -> &[HostTensor] {
        &self.parts
    }

    /// Total encoded bytes.
    pub fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// A tensor that owns float32 values.
    pub fn from_f32(name: &str, rows: usize, cols: usize, values: &[f32]) -> Tensor {
        Tensor::new(vec![HostTensor::from_f32(name, vec![rows, cols], values)])
    }

    /// A tensor over encoded bytes; for tests and conversions.
    ///
    /// # Errors
    /// When the bytes are not `rows` rows of `cols` numbers.
    pub fn from_bytes(
        name: &str,
        dtype: DType,
        rows: usize,
        cols: usize,
        bytes: Bytes,
    ) -> std::result::Result<Tensor, lamina_base::ShapeError> {
        Ok(Tensor::new(vec![HostTensor::new(name, dtype, vec![rows, cols], bytes)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn repacked_rows_are_told_part_by_part() {
        let part = |rows: usize| HostTensor::from_f32("w", vec![rows, 2], &vec![0.0; 2 * rows]);
        let told: Arc<Mutex<Vec<usize>>> = Arc::default();
        let list = told.clone();
        let tensor =
            Tensor::new(vec![part(3), part(4)]).releasing(move |b| list.lock().expect("whole").push(b.len()));
        tensor.repacked(1..5);
        tensor.repacked(5..5);
        assert_eq!(*told.lock().expect("whole"), [16, 16]);
        tensor.reordered(vec![6, 0]).repacked(0..2);
        assert_eq!(told.lock().expect("whole").len(), 2);
    }
}
