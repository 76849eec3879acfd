//! One GGUF file: header, metadata, tensor table, and the tensors as ranges of its bytes.

use super::{DEFAULT_ALIGNMENT, Gguf, MAGIC, MAX_DIMS, Metadata, cursor::Cursor, value::Value};
use crate::{
    ModelFile, Tensors,
    error::{At, FilePart, FormatError, Result},
    extents,
    file_head::FileBeginning,
};
use lamina_base::{Bytes, DType, HostTensor, StoredBytes};
use std::{path::Path, sync::Arc};

/// Fewest bytes of a metadata entry (key length, type, one-byte value) and of a tensor entry (name length, number of
/// dimensions, type, offset): what bounds a count by the size of the file.
const SMALLEST_ENTRY: usize = 8 + 4 + 1;
const SMALLEST_TENSOR: usize = 8 + 4 + 4 + 8;

/// Longest header. Real ones have a few megabytes, of a vocabulary.
const MOST_HEADER: usize = 128 << 20;

/// Most keys, and most tensors: what stands for one in memory is many times as large as in the file.
const MOST_KEYS: u64 = 1 << 16;
const MOST_TENSORS: u64 = 1 << 18;

/// What is read of a file first; vocabularies of 100,000 tokens fit.
const BEGINNING: usize = 4 << 20;

/// Reads the header of one file, as much of the file as it needs.
pub(super) fn parse_file(file: &Arc<ModelFile>) -> Result<Gguf> {
    let (path, whole) = (file.path(), file.stored());
    let mut count = BEGINNING;
    loop {
        let beginning = file.beginning(count)?;
        let mut cursor = Cursor::new(&beginning, file.len().min(MOST_HEADER));
        match header(path, &mut cursor, &whole) {
            Err(_) if cursor.wanted().is_some() => {
                // Twice as much each time, so that all attempts together cost no more than two whole ones.
                count = count.saturating_mul(2).max(cursor.wanted().unwrap_or(0));
            }
            done => return done.map(|gguf| Gguf { files: vec![file.clone()], ..gguf }),
        }
    }
}

/// Reads the header of a file by its beginning; how many bytes it needs where there are too few.
pub(super) fn parse_beginning(file: &FileBeginning) -> Result<std::result::Result<Gguf, usize>> {
    let mut cursor = Cursor::new(&file.bytes, file.len.min(MOST_HEADER));
    match (header(&file.path, &mut cursor, &file.stored()), cursor.wanted()) {
        (Err(_), Some(wanted)) => Ok(Err(wanted)),
        (done, _) => done.map(Ok),
    }
}

/// Reads one file from memory.
pub(super) fn parse(file: &Path, bytes: &Bytes) -> Result<Gguf> {
    header(file, &mut Cursor::new(bytes, bytes.len()), &bytes.clone().into())
}

fn header(file: &Path, cursor: &mut Cursor, whole: &StoredBytes) -> Result<Gguf> {
    let at = At::new(file, FilePart::Header);
    let version = version(cursor, at)?;
    let tensor_count = cursor.u64(at, "tensor count")?;
    let key_count = cursor.count(SMALLEST_ENTRY, at, "metadata count")?;
    few(key_count, MOST_KEYS, at, "metadata count")?;
    let metadata = metadata(cursor, file, key_count)?;
    let alignment = alignment(&metadata)?;
    cursor.fits(tensor_count, SMALLEST_TENSOR, at, "tensor count")?;
    few(tensor_count, MOST_TENSORS, at, "tensor count")?;
    let mut entries = Vec::new();
    for number in 0..tensor_count {
        entries.push(tensor_entry(cursor, At::new(file, FilePart::TensorNumber(number)), alignment)?);
    }
    let tensors = place(file, whole, cursor.pos(), alignment, entries)?;
    Ok(Gguf { version, metadata, tensors, files: Vec::new() })
}

fn few(count: u64, most: u64, at: At, field: &'static str) -> Result<()> {
    if count > most {
        return Err(at.corrupt(field, format!("is {count}, but {most} are read at most")));
    }
    Ok(())
}

fn version(cursor: &mut Cursor, at: At) -> Result<u32> {
    let magic = cursor.u32(at, "magic")?.to_le_bytes();
    if magic != MAGIC {
        return Err(wrong_magic(magic, at));
    }
    let version = cursor.u32(at, "version")?;
    match version {
        2 | 3 => Ok(version),
        1 => Err(at.unsupported("GGUF version 1", "convert the model again with a current converter")),
        0 => Err(at.corrupt("version", "is 0")),
        // A big-endian file stores its small version number in the other half of the word.
        v if v & 0xffff == 0 => {
            let advice = "byte-swap it with `gguf-convert-endian` from the gguf Python package";
            Err(at.unsupported("a big-endian GGUF file", advice))
        }
        v => Err(at.unsupported(format!("GGUF version {v} (this reader knows 2 and 3)"), "update Lamina")),
    }
}

fn wrong_magic(magic: [u8; 4], at: At) -> FormatError {
    match &magic {
        // The formats before GGUF, named by the little-endian words `ggml`, `ggmf`, `ggjt` and `ggla`.
        b"lmgg" | b"fmgg" | b"tjgg" | b"algg" => {
            at.unsupported("a GGML file from before GGUF", "convert the model again with a current converter")
        }
        _ => at.corrupt(
            "magic",
            format!("is {:?} where a GGUF file has \"GGUF\"", magic.escape_ascii().to_string()),
        ),
    }
}

fn metadata(cursor: &mut Cursor, file: &Path, count: u64) -> Result<Metadata> {
    let mut metadata = Metadata::new(file);
    for number in 0..count {
        let key = cursor.text(At::new(file, FilePart::KeyNumber(number)), "name")?;
        let at = At::new(file, FilePart::Key(key));
        if metadata.get(key).is_some() {
            return Err(at.corrupt("name", "stands twice in the file"));
        }
        let id = cursor.u32(at, "value type")?;
        let value = cursor.value(id, at)?;
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn alignment(metadata: &Metadata) -> Result<usize> {
    const KEY: &str = "general.alignment";
    let at = At::new(metadata.file(), FilePart::Key(KEY));
    let n = match metadata.get(KEY) {
        None => DEFAULT_ALIGNMENT,
        Some(Value::U32(n)) => *n,
        Some(other) => {
            return Err(at.corrupt("value", format!("should be a u32, but is {}", other.describe())));
        }
    };
    if !n.is_power_of_two() {
        return Err(at.corrupt("value", format!("{n} is not a power of two")));
    }
    Ok(n as usize)
}

/// A line of the tensor table. `offset` counts from the start of the data section.
struct TableEntry<'a> {
    name: &'a str,
    shape: Vec<usize>,
    dtype: DType,
    bytes: usize,
    offset: usize,
}

fn tensor_entry<'a>(cursor: &mut Cursor<'a>, at: At, alignment: usize) -> Result<TableEntry<'a>> {
    let name = cursor.text(at, "name")?;
    let at = At::new(at.file, FilePart::Tensor(name));
    let n_dims = cursor.u32(at, "number of dimensions")?;
    if n_dims as usize > MAX_DIMS {
        return Err(at.corrupt("number of dimensions", format!("is {n_dims}; GGUF allows {MAX_DIMS}")));
    }
    let dims = (0..n_dims).map(|_| cursor.u64(at, "dimensions")).collect::<Result<Vec<u64>>>()?;
    let id = cursor.u32(at, "type")?;
    let offset = cursor.u64(at, "offset")?;
    let dtype = DType::from_gguf_id(id).ok_or_else(|| {
        let advice = "update Lamina, or quantize the model to another type";
        at.unsupported(format!("tensor type id {id} is unknown"), advice)
    })?;
    let (shape, bytes) = extents_of(&dims, dtype, at)?;
    if !offset.is_multiple_of(alignment as u64) {
        return Err(at.corrupt("offset", format!("{offset} is no multiple of the alignment {alignment}")));
    }
    let offset =
        usize::try_from(offset).map_err(|_| at.corrupt("offset", format!("{offset} leaves the file")))?;
    Ok(TableEntry { name, shape, dtype, bytes, offset })
}

/// The shape, outermost first, and the bytes that it takes.
fn extents_of(dims: &[u64], dtype: DType, at: At) -> Result<(Vec<usize>, usize)> {
    let too_large = || at.corrupt("dimensions", format!("{dims:?} are larger than memory can address"));
    let shape: Option<Vec<usize>> = dims.iter().rev().map(|&d| usize::try_from(d).ok()).collect();
    let shape = shape.ok_or_else(too_large)?;
    extents::checked_product(&shape).ok_or_else(too_large)?;
    let cols = *shape.last().unwrap_or(&1);
    if !cols.is_multiple_of(dtype.block_len()) {
        let block = dtype.block_len();
        return Err(
            at.corrupt("dimensions", format!("{dims:?}: rows of {dtype} hold whole blocks of {block}"))
        );
    }
    let elements = shape.iter().product();
    let bytes = dtype.bytes_for(elements).ok_or_else(too_large)?;
    Ok((shape, bytes))
}

/// Turns table entries into tensors: each inside the file, none on top of another, no name twice.
fn place(
    file: &Path,
    bytes: &StoredBytes,
    table_end: usize,
    alignment: usize,
    entries: Vec<TableEntry>,
) -> Result<Tensors> {
    let header = At::new(file, FilePart::Header);
    let data = table_end
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| header.corrupt("alignment", "puts the data section beyond all memory"))?;
    let mut ranges = Vec::with_capacity(entries.len());
    for e in &entries {
        let start = data.checked_add(e.offset);
        let range = start.and_then(|s| Some(s..s.checked_add(e.bytes)?)).filter(|r| r.end <= bytes.len());
        ranges.push(range.ok_or_else(|| {
            let (at, n) = (At::new(file, FilePart::Tensor(e.name)), e.bytes);
            let there = bytes.len().saturating_sub(data);
            let problem =
                format!("{} with {n} bytes leaves the data section of {there} bytes (cut off?)", e.offset);
            at.corrupt("offset", problem)
        })?);
    }
    if let Some((a, b)) = extents::overlap(&ranges) {
        let at = At::new(file, FilePart::Tensor(entries[b].name));
        return Err(at.corrupt(
            "offset",
            format!("{} is inside {}", entries[b].offset, FilePart::Tensor(entries[a].name)),
        ));
    }
    let mut tensors = Tensors::with_capacity(entries.len());
    for (e, range) in entries.into_iter().zip(ranges) {
        let at = At::new(file, FilePart::Tensor(e.name));
        let part = bytes.slice(range).ok_or_else(|| at.corrupt("offset", "leaves the file"))?;
        let tensor = HostTensor::new(e.name, e.dtype, e.shape, part)
            .map_err(|err| at.corrupt("dimensions", err.to_string()))?;
        if tensors.insert(e.name.to_owned(), tensor).is_some() {
            return Err(at.corrupt("name", "stands twice in the file"));
        }
    }
    Ok(tensors)
}
