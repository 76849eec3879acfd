//! Writes GGUF version 3: metadata and tensor table first, then the tensors' bytes as they come, so a model larger than
//! memory can be written. Optionally split into shards of a largest size.

use super::{
    DEFAULT_ALIGNMENT, MAGIC, MAX_DIMS, MAX_NAME, Metadata, Value,
    partial::{self, Partial},
    split::{self, ShardName},
    value::write_str,
};
use crate::{
    error::{At, FilePart, Result},
    extents,
};
use indexmap::IndexMap;
use lamina_base::DType;
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

const VERSION: u32 = 3;
const ALIGNMENT_KEY: &str = "general.alignment";

/// What a GGUF file is going to hold. Set the metadata, declare every tensor in order, then [`Writer::create`] the file
/// and hand over the bytes.
///
/// ```no_run
/// # use lamina_base::DType;
/// let mut writer = lamina_store::gguf::Writer::new("out.gguf", "llama");
/// writer.set("llama.block_count", 1u32);
/// writer.declare("output_norm.weight", DType::F32, &[4])?;
/// let mut out = writer.create()?;
/// out.write("output_norm.weight", &[0; 16])?;
/// let files = out.finish()?;
/// # Ok::<(), lamina_store::FormatError>(())
/// ```
pub struct Writer {
    path: PathBuf,
    metadata: Metadata,
    tensors: IndexMap<String, Declared>,
    alignment: u32,
    max_shard: Option<u64>,
    max_tensors: Option<usize>,
}

struct Declared {
    dtype: DType,
    shape: Vec<usize>,
    bytes: u64,
}

impl Writer {
    /// A file for `path` whose `general.architecture` is `architecture`. Nothing is written yet.
    pub fn new(path: impl Into<PathBuf>, architecture: &str) -> Self {
        let mut writer = Writer::bare(path);
        writer.set("general.architecture", architecture);
        writer
    }

    /// A file that holds no model, such as an importance matrix.
    pub fn bare(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let metadata = Metadata::new(&path);
        let (tensors, alignment) = (IndexMap::new(), DEFAULT_ALIGNMENT);
        Writer { path, metadata, tensors, alignment, max_shard: None, max_tensors: None }
    }

    /// Sets a metadata key. Those of alignment and splitting are the writer's own: what is set for them,
    /// say with all keys of another file, is left out.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        self.metadata.insert(key, value);
        self
    }

    /// Starts every tensor at a multiple of `bytes`.
    ///
    /// # Errors
    /// When `bytes` is not a power of two.
    pub fn alignment(&mut self, bytes: u32) -> Result<&mut Self> {
        if !bytes.is_power_of_two() {
            let at = At::new(&self.path, FilePart::Key(ALIGNMENT_KEY));
            return Err(at.corrupt("value", format!("{bytes} is not a power of two")));
        }
        self.alignment = bytes;
        Ok(self)
    }

    /// Splits the tensors into files of at most about `bytes` of data each; a single larger tensor gets a file of its
    /// own. Files get shard names only when there is more than one.
    pub fn max_shard_bytes(&mut self, bytes: u64) -> &mut Self {
        self.max_shard = Some(bytes);
        self
    }

    /// Splits the tensors into files of at most `count` each, as [`Writer::max_shard_bytes`] does by size.
    pub fn max_shard_tensors(&mut self, count: usize) -> &mut Self {
        self.max_tensors = Some(count.max(1));
        self
    }

    /// Adds a tensor; `shape` is outermost first. Bytes follow in the order of declaration.
    ///
    /// # Errors
    /// When GGUF has no such type, the name is taken, empty or too long, or shape and type do not fit together.
    pub fn declare(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
        let at = At::new(&self.path, FilePart::Tensor(name));
        if dtype.gguf_id().is_none() {
            let advice = "convert the tensor to a type that GGUF has first";
            return Err(at.unsupported(format!("GGUF has no type {dtype}"), advice));
        }
        if name.is_empty() || name.len() >= MAX_NAME {
            return Err(
                at.corrupt("name", format!("has {} bytes; 1 to {} are allowed", name.len(), MAX_NAME - 1))
            );
        }
        if shape.len() > MAX_DIMS {
            return Err(
                at.corrupt("number of dimensions", format!("is {}; GGUF allows {MAX_DIMS}", shape.len()))
            );
        }
        let whole_blocks = shape.last().unwrap_or(&1).is_multiple_of(dtype.block_len());
        let bytes = extents::checked_product(shape)
            .and_then(|_| dtype.bytes_for(shape.iter().product()))
            .filter(|_| whole_blocks)
            .ok_or_else(|| at.corrupt("dimensions", format!("{shape:?} do not fit the blocks of {dtype}")))?;
        let declared = Declared { dtype, shape: shape.to_vec(), bytes: bytes as u64 };
        if self.tensors.contains_key(name) {
            return Err(at.corrupt("name", "was declared before"));
        }
        self.tensors.insert(name.to_owned(), declared);
        Ok(())
    }

    /// Creates the file or files with everything but the tensors' bytes. They carry a random name that ends in
    /// `.partial` until [`Output::finish`], so that a half-written model never looks like a whole one.
    ///
    /// # Errors
    /// When a file cannot be created or written, or another process is writing a file of the same name.
    pub fn create(mut self) -> Result<Output> {
        let shards = self.shards();
        if shards.len() > usize::from(u16::MAX) {
            let at = At::new(&self.path, FilePart::Key(split::COUNT));
            return Err(at.unsupported(format!("{} shards", shards.len()), "allow larger shards"));
        }
        // Metadata copied from another file brings that file's own layout along.
        for key in [ALIGNMENT_KEY, split::NUMBER, split::COUNT, split::TENSORS] {
            self.metadata.remove(key);
        }
        if self.alignment != DEFAULT_ALIGNMENT {
            self.metadata.insert(ALIGNMENT_KEY, self.alignment);
        }
        let name = ShardName::for_whole(&self.path, shards.len());
        let mut files = Vec::with_capacity(shards.len());
        for (number, tensors) in shards.iter().enumerate() {
            let path = if shards.len() == 1 { self.path.clone() } else { name.path(number) };
            let mut file = Partial::create(path)?;
            file.write(&self.header(number, shards.len(), tensors.clone()))?;
            files.push(file);
        }
        let shard_of =
            shards.into_iter().enumerate().flat_map(|(i, tensors)| tensors.map(move |_| i)).collect();
        Ok(Output { writer: self, files, shard_of, next: 0, written: 0 })
    }

    /// Which tensors go into which file.
    fn shards(&self) -> Vec<Range<usize>> {
        let limit = self.max_shard.unwrap_or(u64::MAX);
        let most = self.max_tensors.unwrap_or(usize::MAX);
        let (mut shards, mut start, mut filled) = (Vec::new(), 0, 0u64);
        for (i, tensor) in self.tensors.values().enumerate() {
            let bytes = tensor.bytes.next_multiple_of(self.alignment.into());
            if i > start && (filled.saturating_add(bytes) > limit || i - start >= most) {
                shards.push(start..i);
                (start, filled) = (i, 0);
            }
            filled = filled.saturating_add(bytes);
        }
        shards.push(start..self.tensors.len());
        shards
    }

    /// Magic, counts, metadata, tensor table and padding of shard `number`.
    fn header(&self, number: usize, count: usize, tensors: Range<usize>) -> Vec<u8> {
        let mut keys = if number == 0 { self.metadata.clone() } else { Metadata::default() };
        if number > 0 && self.alignment != DEFAULT_ALIGNMENT {
            keys.insert(ALIGNMENT_KEY, self.alignment);
        }
        if count > 1 {
            keys.insert(split::NUMBER, number as u16);
            keys.insert(split::COUNT, count as u16);
            keys.insert(split::TENSORS, self.tensors.len() as i32);
        }
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(keys.len() as u64).to_le_bytes());
        for (key, value) in keys.iter() {
            write_str(key.as_bytes(), &mut out);
            out.extend_from_slice(&value.type_id().to_le_bytes());
            value.write(&mut out);
        }
        let mut offset = 0u64;
        for (name, tensor) in self.tensors.as_slice().get_range(tensors).into_iter().flatten() {
            tensor.write_entry(name, offset, &mut out);
            offset += tensor.bytes.next_multiple_of(self.alignment.into());
        }
        out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
        out
    }
}

impl Declared {
    fn write_entry(&self, name: &str, offset: u64, out: &mut Vec<u8>) {
        write_str(name.as_bytes(), out);
        out.extend_from_slice(&(self.shape.len() as u32).to_le_bytes());
        self.shape.iter().rev().for_each(|&d| out.extend_from_slice(&(d as u64).to_le_bytes()));
        // `declare` refuses types without an id.
        out.extend_from_slice(&self.dtype.gguf_id().unwrap_or_default().to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
    }
}

/// The files of a [`Writer`] while tensor bytes go in. Dropped before [`Output::finish`], it removes them again.
pub struct Output {
    writer: Writer,
    files: Vec<Partial>,
    /// File of each tensor.
    shard_of: Vec<usize>,
    /// The tensor that bytes are expected for, and how many of it are there.
    next: usize,
    written: u64,
}

impl Output {
    /// Appends bytes of tensor `name`, all at once or in pieces of any size; tensors come in declared order.
    ///
    /// # Errors
    /// When another tensor's turn it is, the tensor would get too long, or the disk refuses.
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let at = At::new(&self.writer.path, FilePart::Tensor(name));
        let Some((due, tensor)) = self.writer.tensors.get_index(self.next) else {
            return Err(at.corrupt("data", "comes after the last declared tensor"));
        };
        if due != name {
            return Err(at.corrupt("data", format!("comes where {} is due", FilePart::Tensor(due))));
        }
        let written = self.written + bytes.len() as u64;
        if written > tensor.bytes {
            let problem = format!("has {written} bytes or more, but type and shape need {}", tensor.bytes);
            return Err(at.corrupt("data", problem));
        }
        let file = &mut self.files[self.shard_of[self.next]];
        file.write(bytes)?;
        self.written = written;
        if written == tensor.bytes {
            let padding = tensor.bytes.next_multiple_of(self.writer.alignment.into()) - tensor.bytes;
            file.write(&vec![0; padding as usize])?;
            (self.next, self.written) = (self.next + 1, 0);
        }
        Ok(())
    }

    /// Gives the complete files their names, once all of them are on the disk, and returns them in shard order.
    ///
    /// # Errors
    /// When bytes of a declared tensor are missing, or the disk refuses.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some((name, tensor)) = self.writer.tensors.get_index(self.next) {
            let at = At::new(&self.writer.path, FilePart::Tensor(name));
            return Err(at.corrupt("data", format!("has {} of its {} bytes", self.written, tensor.bytes)));
        }
        partial::publish(std::mem::take(&mut self.files))
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Output({}, {} of {} tensors)",
            Path::display(&self.writer.path),
            self.next,
            self.shard_of.len()
        )
    }
}
