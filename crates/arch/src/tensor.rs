//! A weight as the plan wants it: rows that may be cut, stacked and reordered views of the file's tensors.

use crate::error::{ArchError, Result};
use lamina_base::{Bytes, DType, HostTensor};
use lamina_store::FormatError;
use std::{fmt, ops::Range, sync::Arc};

/// Copies stored bytes to memory; see [`lamina_store::Checkpoint::reader`].
pub type ReadStored = dyn Fn(&[u8], &mut [u8]) -> std::result::Result<(), FormatError> + Send + Sync;

#[derive(Clone)]
struct Reader(Arc<ReadStored>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
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
    /// Reads the parts, where they lie in a file.
    reader: Option<Reader>,
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
            reader: None,
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
        Ok(Tensor { reader: first.reader.clone(), ..Tensor::new(parts) }.reordered(order))
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

    /// The same tensor, whose stored bytes are read by `reader`.
    pub fn reading(mut self, reader: Arc<ReadStored>) -> Tensor {
        self.reader = Some(Reader(reader));
        self
    }

    /// Copies the encoded bytes of logical rows `rows` to `out`, which has room for exactly these.
    ///
    /// # Errors
    /// When the file that they lie in cannot be read, or was changed since it was opened.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let n = self.row_bytes();
        assert_eq!(out.len(), rows.len() * n, "room for the rows");
        let (mut row, mut done) = (rows.start, 0);
        while row < rows.end {
            let (part, at, run) = self.run(row, rows.end - row);
            let (from, to) = (&part.bytes[at * n..(at + run) * n], &mut out[done * n..(done + run) * n]);
            match &self.reader {
                Some(Reader(read)) => read(from, to)?,
                None => to.copy_from_slice(from),
            }
            (row, done) = (row + run, done + run);
        }
        Ok(())
    }

    /// Where logical row `row` is stored: the part, the row of the part, and how many of the next `most` logical rows
    /// follow it there.
    fn run(&self, row: usize, most: usize) -> (&HostTensor, usize, usize) {
        let stored = |i: usize| self.order.as_ref().map_or(i, |o| o[i] as usize);
        let mut at = stored(row);
        for part in &self.parts {
            if at < part.rows() {
                let most = most.min(part.rows() - at);
                let run = (1..most).take_while(|&i| stored(row + i) == stored(row) + i).count() + 1;
                return (part, at, run);
            }
            at -= part.rows();
        }
        panic!("row {row} of {}", self.rows())
    }

    /// All values as float32.
    ///
    /// # Errors
    /// When the type cannot be decoded.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut out = vec![0.0; self.rows() * self.cols];
        let mut stored = vec![0; self.row_bytes()];
        for (i, row) in out.chunks_exact_mut(self.cols.max(1)).enumerate() {
            self.read(i..i + 1, &mut stored)?;
            lamina_quant::decode(self.dtype, &stored, row)?;
        }
        Ok(out)
    }

    /// The error that this tensor has another shape than `want`.
    pub(crate) fn shape_error(&self, want: String) -> ArchError {
        let found = format!("{} x {}", self.rows(), self.cols);
        ArchError::Shape { name: self.name.clone(), found, want }
    }

    /// The stored pieces, to release their pages once they are not needed any more.
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
    fn rows_are_read_in_runs_of_what_is_stored() {
        let part = |first: usize, rows: usize| {
            let values: Vec<f32> = (2 * first..2 * (first + rows)).map(|v| v as f32).collect();
            HostTensor::from_f32("w", vec![rows, 2], &values)
        };
        let runs: Arc<Mutex<Vec<usize>>> = Arc::default();
        let list = runs.clone();
        let read = move |from: &[u8], to: &mut [u8]| {
            list.lock().expect("whole").push(from.len() / 8);
            to.copy_from_slice(from);
            Ok(())
        };
        let tensor = Tensor::new(vec![part(0, 3), part(3, 4)]).reading(Arc::new(read));
        let check = |tensor: &Tensor, rows: Range<usize>, want: &[usize]| {
            let mut out = vec![0; rows.len() * 8];
            tensor.read(rows.clone(), &mut out).expect("reads");
            let expected: Vec<u8> = rows.flat_map(|i| tensor.row(i).to_vec()).collect();
            assert_eq!(out, expected);
            assert_eq!(std::mem::take(&mut *runs.lock().expect("whole")), want);
        };
        check(&tensor, 1..5, &[2, 2]);
        check(&tensor, 5..5, &[]);
        check(&tensor.clone().reordered(vec![6, 0, 1, 2, 3]), 0..5, &[1, 3, 1]);
        let gone: Arc<ReadStored> = Arc::new(|_, _| Err(FormatError::Changed { file: "gone".into() }));
        assert!(tensor.reading(gone).to_f32().is_err());
    }
}
