//! A weight as the plan wants it: rows that may be cut, stacked and reordered views of the file's tensors.

use crate::error::{ArchError, Result};
use lamina_base::{DType, HostTensor, StoredBytes, zeros};
use std::ops::Range;

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
}

impl Tensor {
    /// The rows of `parts`, one after another.
    ///
    /// # Panics
    /// When `parts` is empty or its types or widths differ; the resolver checks that before.
    pub fn new(parts: Vec<HostTensor>) -> Tensor {
        let first = parts.first().expect("at least one part");
        assert!(parts.iter().all(|p| p.dtype == first.dtype && p.cols() == first.cols()), "parts are alike");
        Tensor { name: first.name.clone(), dtype: first.dtype, cols: first.cols(), order: None, parts }
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

    /// Logical rows `rows` as a tensor of their own, of which nothing is copied.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn slice(&self, rows: Range<usize>) -> Tensor {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        if let Some(order) = &self.order {
            return Tensor { order: Some(order[rows].to_vec()), ..self.clone() };
        }
        let (n, mut before, mut parts) = (self.row_bytes(), 0, vec![]);
        for part in &self.parts {
            let inside =
                rows.start.clamp(before, before + part.rows())..rows.end.clamp(before, before + part.rows());
            let (start, end) = (inside.start - before, inside.end - before);
            before += part.rows();
            // One part stays where all are empty: it has the type and the width.
            if start < end || parts.is_empty() && before >= rows.end {
                let bytes = part.bytes.slice(start * n..end * n).expect("rows of the part");
                parts.push(HostTensor { shape: vec![end - start, self.cols], bytes, ..part.clone() });
            }
        }
        Tensor { parts, ..self.clone() }
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
            part.bytes.copy_to(at * n, &mut out[done * n..(done + run) * n])?;
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
    /// When the type cannot be decoded, the file cannot be read, or there is no memory.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut out = zeros(self.rows() * self.cols, &format!("tensor `{}`", self.name))?;
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

    /// Total encoded bytes.
    pub fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// Bytes of it that are in memory; the rest is read from its file when it is asked for.
    pub fn held_bytes(&self) -> usize {
        self.parts.iter().filter_map(|p| p.bytes.held()).map(<[u8]>::len).sum()
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
        bytes: impl Into<StoredBytes>,
    ) -> std::result::Result<Tensor, lamina_base::ShapeError> {
        Ok(Tensor::new(vec![HostTensor::new(name, dtype, vec![rows, cols], bytes)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_base::{BytesFile, ReadError};
    use std::{
        path::Path,
        sync::{Arc, Mutex},
    };

    /// A file that notes how many rows of eight bytes each read takes; without contents it has changed.
    #[derive(Debug)]
    struct NotingFile(Vec<u8>, Arc<Mutex<Vec<usize>>>);

    impl BytesFile for NotingFile {
        fn path(&self) -> &Path {
            Path::new("noting")
        }

        fn read_at(&self, offset: usize, out: &mut [u8]) -> std::result::Result<(), ReadError> {
            self.1.lock().expect("whole").push(out.len() / 8);
            let from = self.0.get(offset..offset + out.len());
            out.copy_from_slice(from.ok_or_else(|| ReadError::Changed { file: "noting".into() })?);
            Ok(())
        }
    }

    #[test]
    fn rows_are_read_in_runs_of_what_is_stored() {
        let runs: Arc<Mutex<Vec<usize>>> = Arc::default();
        let part = |first: usize, rows: usize| {
            let values: Vec<f32> = (2 * first..2 * (first + rows)).map(|v| v as f32).collect();
            let held = HostTensor::from_f32("w", vec![rows, 2], &values);
            let file = NotingFile(held.bytes.held().expect("in memory").to_vec(), runs.clone());
            let bytes = StoredBytes::InFile { file: Arc::new(file), range: 0..8 * rows };
            [held.clone(), HostTensor { bytes, ..held }]
        };
        let [a, b] = [part(0, 3), part(3, 4)];
        let [held, stored] = [0, 1].map(|i| Tensor::new(vec![a[i].clone(), b[i].clone()]));
        let check = |order: Option<Vec<u32>>, rows: Range<usize>, want: &[usize]| {
            let read = |tensor: &Tensor| {
                let tensor = order.iter().cloned().fold(tensor.clone(), Tensor::reordered);
                let mut out = vec![0; rows.len() * 8];
                tensor.read(rows.clone(), &mut out).expect("reads");
                out
            };
            assert_eq!(read(&stored), read(&held));
            assert_eq!(std::mem::take(&mut *runs.lock().expect("whole")), want);
        };
        check(None, 1..5, &[2, 2]);
        check(None, 5..5, &[]);
        check(Some(vec![6, 0, 1, 2, 3]), 0..5, &[1, 3, 1]);
        let gone = StoredBytes::InFile { file: Arc::new(NotingFile(vec![], runs)), range: 0..24 };
        let gone = Tensor::new(vec![HostTensor { bytes: gone, ..a[0].clone() }]);
        assert!(gone.to_f32().expect_err("has changed").to_string().contains("was changed"));
    }
}
