//! Writes a draft: tensor by tensor, a few million values at a time, on several threads.

use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
    imatrix::Imatrix,
    types::{Choice, Types},
};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, on_threads, zeros};
use lamina_store::gguf::{Output, Writer};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

/// Told how many bytes of the source are done, and how many there are; returning false gives up.
pub type Progress<'a> = &'a dyn Fn(u64, u64) -> bool;

/// Values that are encoded before they are written: what bounds the memory, and - with the slowest types at a million
/// values a second and thread - how long a user waits who gives up.
const SLAB: usize = 4 << 20;

/// Version of the block formats, as files state it.
const QUANTIZATION_VERSION: u32 = 2;

/// How a file is written.
#[derive(Clone, Debug)]
pub struct WriteOptions<'a> {
    /// Types of the tensors.
    pub choice: Choice,
    /// Which columns of the weights matter.
    pub imatrix: Option<&'a Imatrix>,
    /// Threads that encode.
    pub threads: usize,
    /// Split into files of at most about this many bytes.
    pub max_shard_bytes: Option<u64>,
    /// Split into files of at most so many tensors.
    pub max_shard_tensors: Option<usize>,
}

impl WriteOptions<'_> {
    /// One file of these types, with as many threads as the machine has.
    pub fn new(types: Types) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        WriteOptions {
            choice: Choice::new(types),
            imatrix: None,
            threads,
            max_shard_bytes: None,
            max_shard_tensors: None,
        }
    }
}

/// What was written.
#[derive(Clone, Debug)]
pub struct WriteReport {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Bytes of the tensors before.
    pub bytes_in: u64,
    /// Bytes of the tensors in the new files.
    pub bytes_out: u64,
    /// Values in all tensors.
    pub params: u64,
    /// Seconds it took.
    pub seconds: f64,
    /// The mix that was asked for; none where tensors kept their types.
    pub mix: Option<&'static str>,
    /// Tensors and bytes of each type.
    pub types: BTreeMap<&'static str, (usize, u64)>,
    /// What a user should know.
    pub notes: Vec<String>,
}

impl WriteReport {
    /// Bits of a value, on average.
    pub fn bits_per_weight(&self) -> f64 {
        self.bytes_out as f64 * 8.0 / self.params.max(1) as f64
    }

    /// Speed, by the bytes that were read.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes_in as f64 / 1e9 / self.seconds.max(1e-9)
    }
}

impl Draft {
    /// Writes the file, or its shards.
    ///
    /// # Errors
    /// When a tensor cannot be read or encoded, the disk refuses, or `progress` gives up. Nothing half-written stays.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        options: &WriteOptions<'_>,
        progress: Progress<'_>,
    ) -> Result<WriteReport> {
        let (path, start) = (path.as_ref(), Instant::now());
        self.refuse_own_source(path)?;
        let types = options.choice.plan(self, options.imatrix.is_some())?;
        let mut out = self.header(path, &types, options)?.create()?;
        let total: u64 = self.tensors.iter().map(Planned::bytes).sum();
        let (mut done, mut bytes_out) = (0, 0);
        let mut counts: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
        let mut notes = self.notes.clone();
        notes.extend(options.choice.odd_widths(self, options.imatrix.is_some())?);
        for (planned, &dtype) in self.tensors.iter().zip(&types) {
            let job = TensorJob::new(planned, dtype, options, &mut notes)?;
            let written = job.run(&mut out, &mut |part| progress(done + part, total))?;
            done += planned.bytes();
            bytes_out += written;
            let count = counts.entry(dtype.name()).or_default();
            *count = (count.0 + 1, count.1 + written);
        }
        Ok(WriteReport {
            files: out.finish()?,
            bytes_in: total,
            bytes_out,
            params: self.params(),
            seconds: start.elapsed().as_secs_f64(),
            mix: options.choice.mix(self).map(|mix| mix.name),
            types: counts,
            notes,
        })
    }

    /// Bytes of all tensors in the types of `choice`, with an importance matrix at hand.
    ///
    /// # Errors
    /// As for [`Choice::plan`].
    pub fn bytes_as(&self, choice: &Choice) -> Result<u64> {
        let types = choice.plan(self, true)?;
        let bytes =
            |(t, dtype): (&Planned, &DType)| (t.elements() / dtype.block_len() * dtype.block_bytes()) as u64;
        Ok(self.tensors.iter().zip(&types).map(bytes).sum())
    }

    /// A file that is written over while it is read has lost its weights before they are read.
    fn refuse_own_source(&self, path: &Path) -> Result<()> {
        let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        if self.source.files.iter().any(|f| same(f.path(), path)) {
            return Err(ConvertError::file(path, "is the model itself; give another name for the new file"));
        }
        Ok(())
    }

    fn header(&self, path: &Path, types: &[DType], options: &WriteOptions<'_>) -> Result<Writer> {
        let mut writer = Writer::new(path, &self.architecture);
        for (key, value) in self.metadata.iter() {
            writer.set(key, value.clone());
        }
        if let Some(mix) = options.choice.mix(self) {
            writer.set("general.file_type", mix.file_type);
        }
        writer.set("general.quantization_version", QUANTIZATION_VERSION);
        if let Some(imatrix) = options.imatrix {
            writer.set("quantize.imatrix.file", imatrix.file.display().to_string());
            writer.set("quantize.imatrix.entries_count", imatrix.sums.len() as u32);
            writer.set("quantize.imatrix.chunks_count", imatrix.chunks);
            if let Some(dataset) = imatrix.datasets.first() {
                writer.set("quantize.imatrix.dataset", dataset.as_str());
            }
        }
        if let Some(bytes) = options.max_shard_bytes {
            writer.max_shard_bytes(bytes);
        }
        if let Some(count) = options.max_shard_tensors {
            writer.max_shard_tensors(count);
        }
        for (planned, &dtype) in self.tensors.iter().zip(types) {
            writer.declare(&planned.name, dtype, &planned.shape)?;
        }
        Ok(writer)
    }
}

/// One tensor on its way.
struct TensorJob<'a> {
    planned: &'a Planned,
    values: Tensor,
    dtype: DType,
    /// Weights of the columns, one row for each matrix of the tensor.
    importance: Option<Vec<f32>>,
    threads: usize,
}

impl<'a> TensorJob<'a> {
    fn new(
        planned: &'a Planned,
        dtype: DType,
        options: &WriteOptions<'_>,
        notes: &mut Vec<String>,
    ) -> Result<TensorJob<'a>> {
        let matrices = if planned.shape.len() > 2 { planned.shape[0] } else { 1 };
        let importance = match options.imatrix.filter(|_| dtype.is_quantized()) {
            Some(imatrix) => {
                let found = imatrix.weights(&planned.name, matrices, planned.cols())?;
                if found.is_none() {
                    notes.push(format!("`{}` is not in the importance matrix", planned.name));
                }
                found
            }
            None => None,
        };
        Ok(TensorJob {
            planned,
            values: planned.values()?,
            dtype,
            importance,
            threads: options.threads.max(1),
        })
    }

    /// Writes all rows; returns their bytes.
    fn run(&self, out: &mut Output, progress: &mut dyn FnMut(u64) -> bool) -> Result<u64> {
        let (rows, cols) = (self.planned.rows(), self.planned.cols());
        let row_bytes = cols / self.dtype.block_len() * self.dtype.block_bytes();
        if rows == 0 || row_bytes == 0 {
            out.write(&self.planned.name, &[])?;
            return Ok(0);
        }
        let slab = (SLAB / cols.max(1)).clamp(1, rows);
        let mut buffer: Vec<u8> = zeros(slab * row_bytes, &format!("tensor `{}`", self.planned.name))?;
        let mut row = 0;
        while row < rows {
            let count = slab.min(rows - row);
            let bytes = &mut buffer[..count * row_bytes];
            self.slab(row, row_bytes, bytes)?;
            out.write(&self.planned.name, bytes)?;
            row += count;
            if !progress(self.planned.bytes() * row as u64 / rows as u64) {
                return Err(ConvertError::Stopped);
            }
        }
        Ok((rows * row_bytes) as u64)
    }

    /// Encodes rows from `first` on, each thread a stretch of them.
    fn slab(&self, first: usize, row_bytes: usize, out: &mut [u8]) -> Result<()> {
        let rows = out.len() / row_bytes;
        let each = rows.div_ceil(self.threads).max(1);
        if self.threads == 1 || rows == 1 {
            return self.rows(first, row_bytes, out);
        }
        let chunks = out.chunks_mut(each * row_bytes).enumerate();
        let done = on_threads(chunks, |(i, chunk)| self.rows(first + i * each, row_bytes, chunk));
        done.into_iter().collect()
    }

    fn rows(&self, first: usize, row_bytes: usize, out: &mut [u8]) -> Result<()> {
        let cols = self.planned.cols();
        if self.values.dtype == self.dtype {
            return Ok(self.values.read(first..first + out.len() / row_bytes, out)?);
        }
        let mut values = vec![0f32; cols];
        let mut stored = vec![0; self.values.row_bytes()];
        for (i, out) in out.chunks_exact_mut(row_bytes).enumerate() {
            let row = first + i;
            self.values.read(row..row + 1, &mut stored)?;
            let done = lamina_quant::decode(self.values.dtype, &stored, &mut values)
                .and_then(|()| lamina_quant::encode(self.dtype, &values, self.importance_of(row), out));
            done.map_err(|source| ConvertError::Quant { tensor: self.planned.name.clone(), source })?;
        }
        Ok(())
    }

    fn importance_of(&self, row: usize) -> Option<&[f32]> {
        let (weights, cols) = (self.importance.as_ref()?, self.planned.cols());
        let matrices = weights.len() / cols.max(1);
        let matrix = row / (self.planned.rows() / matrices.max(1)).max(1);
        weights.get(matrix * cols..(matrix + 1) * cols)
    }
}
