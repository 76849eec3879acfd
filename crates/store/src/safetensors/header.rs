//! The header of one safetensors file, and its tensors as ranges of the bytes behind it.

use crate::{
    Tensors,
    error::{At, FilePart, Result, quoted},
    extents,
    json::{self, describe},
};
use lamina_base::{DType, HostTensor, StoredBytes, zeros};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, ops::Range, path::Path};

/// Largest header the format allows, in bytes.
const MAX_HEADER: u64 = 100_000_000;

/// Bytes of the header's length in front of it.
const PREFIX: usize = 8;

const METADATA: &str = "__metadata__";

/// The types of the format. Its sub-byte types (`F4`, `F6_*`) and complex numbers belong to no language model yet.
const DTYPES: &[DType] = &[
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8_E4M3,
    DType::F8_E5M2,
    DType::F8_E8M0,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];

pub(super) fn parse(file: &Path, bytes: &StoredBytes) -> Result<(Tensors, BTreeMap<String, String>)> {
    let data = PREFIX + header_len(file, bytes)?;
    let at = At::new(file, FilePart::Header);
    let mut header = zeros(data - PREFIX, &format!("the header of {}", file.display()))?;
    bytes.copy_to(PREFIX, &mut header)?;
    let text = std::str::from_utf8(&header)
        .map_err(|e| at.corrupt("text", format!("is not UTF-8 at byte {}", e.valid_up_to())))?;
    let mut entries = match json::strict(text)
        .map_err(|e| at.corrupt("text", format!("is no valid JSON: {e}")))?
    {
        Value::Object(entries) => entries,
        other => {
            return Err(at.corrupt("text", format!("should be a JSON object, but is {}", describe(&other))));
        }
    };
    let metadata = metadata(entries.shift_remove(METADATA), at)?;
    let entries: Vec<HeaderEntry> = entries
        .iter()
        .map(|(name, v)| entry(At::new(file, FilePart::Tensor(name)), name, v))
        .collect::<Result<_>>()?;
    check_layout(file, &entries, bytes.len() - data)?;
    let mut tensors = Tensors::with_capacity(entries.len());
    for e in entries {
        let at = At::new(file, FilePart::Tensor(e.name));
        let part = bytes
            .slice(data + e.range.start..data + e.range.end)
            .ok_or_else(|| at.corrupt("data_offsets", "leave the file"))?;
        let tensor = HostTensor::new(e.name, e.dtype, e.shape, part)
            .map_err(|err| at.corrupt("shape", err.to_string()))?;
        tensors.insert(e.name.to_owned(), tensor);
    }
    Ok((tensors, metadata))
}

fn header_len(file: &Path, bytes: &StoredBytes) -> Result<usize> {
    let at = At::new(file, FilePart::Header);
    if bytes.len() < PREFIX {
        return Err(at.corrupt("length", format!("needs {PREFIX} bytes, but the file has {}", bytes.len())));
    }
    let mut prefix = [0; PREFIX];
    bytes.copy_to(0, &mut prefix)?;
    let len = u64::from_le_bytes(prefix);
    let there = bytes.len() - PREFIX;
    if len > MAX_HEADER {
        let problem = format!(
            "is {len} bytes, more than the {MAX_HEADER} that the format allows (no safetensors file?)"
        );
        return Err(at.corrupt("length", problem));
    }
    match usize::try_from(len) {
        Ok(n) if n <= there => Ok(n),
        _ => Err(at.corrupt("length", format!("is {len} bytes, but only {there} follow (cut off?)"))),
    }
}

fn metadata(value: Option<Value>, at: At) -> Result<BTreeMap<String, String>> {
    let wrong = |what: &str, v: &Value| {
        at.corrupt(METADATA, format!("{what} should be text, but is {}", describe(v)))
    };
    match value {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map
            .into_iter()
            .map(|(k, v)| match v {
                Value::String(s) => Ok((k, s)),
                other => Err(wrong(&quoted(&k), &other)),
            })
            .collect(),
        Some(other) => Err(wrong("each value", &other)),
    }
}

/// A tensor of the header. `range` counts from the first byte behind the header.
struct HeaderEntry<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<usize>,
    range: Range<usize>,
}

fn entry<'a>(at: At, name: &'a str, value: &Value) -> Result<HeaderEntry<'a>> {
    let Value::Object(fields) = value else {
        return Err(at.corrupt("entry", format!("should be an object, but is {}", describe(value))));
    };
    let dtype = dtype(at, fields)?;
    let shape = numbers(at, fields, "shape")?;
    let offsets = numbers(at, fields, "data_offsets")?;
    let &[start, end] = offsets.as_slice() else {
        return Err(at.corrupt("data_offsets", format!("has {} numbers where it needs 2", offsets.len())));
    };
    let bytes = extents::checked_product(&shape).and_then(|_| dtype.bytes_for(shape.iter().product()));
    let bytes =
        bytes.ok_or_else(|| at.corrupt("shape", format!("{shape:?} is larger than memory can address")))?;
    if start > end || end - start != bytes {
        let problem = format!("[{start}, {end}] do not span the {bytes} bytes of {dtype} {shape:?}");
        return Err(at.corrupt("data_offsets", problem));
    }
    Ok(HeaderEntry { name, dtype, shape, range: start..end })
}

fn dtype(at: At, fields: &Map<String, Value>) -> Result<DType> {
    match fields.get("dtype") {
        Some(Value::String(name)) => DTYPES.iter().copied().find(|t| t.name() == name).ok_or_else(|| {
            let known: Vec<&str> = DTYPES.iter().map(|t| t.name()).collect();
            let advice = format!("convert it to one of {}", known.join(" "));
            at.unsupported(format!("dtype {} is unknown", quoted(name)), advice)
        }),
        Some(other) => Err(at.corrupt("dtype", format!("should be text, but is {}", describe(other)))),
        None => Err(at.corrupt("dtype", "is missing")),
    }
}

fn numbers(at: At, fields: &Map<String, Value>, field: &'static str) -> Result<Vec<usize>> {
    let Some(value) = fields.get(field) else { return Err(at.corrupt(field, "is missing")) };
    let Value::Array(items) = value else {
        return Err(at.corrupt(field, format!("should be a list, but is {}", describe(value))));
    };
    let number = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
    items
        .iter()
        .map(|v| {
            number(v).ok_or_else(|| {
                at.corrupt(field, format!("should hold whole numbers, but has {}", describe(v)))
            })
        })
        .collect()
}

/// The format's rule: the tensors cover the bytes behind the header without overlap, hole or rest.
fn check_layout(file: &Path, entries: &[HeaderEntry], data_len: usize) -> Result<()> {
    let mut order: Vec<&HeaderEntry> = entries.iter().collect();
    order.sort_by_key(|e| (e.range.start, e.range.end));
    let mut end = 0;
    for e in order {
        let (at, start) = (At::new(file, FilePart::Tensor(e.name)), e.range.start);
        if e.range.end > data_len {
            let problem =
                format!("end at {}, but the file has {data_len} bytes of data (cut off?)", e.range.end);
            return Err(at.corrupt("data_offsets", problem));
        }
        if start < end {
            return Err(at.corrupt(
                "data_offsets",
                format!("start at {start}, inside another tensor that ends at {end}"),
            ));
        }
        if start > end {
            return Err(
                at.corrupt("data_offsets", format!("start at {start}, leaving a hole after byte {end}"))
            );
        }
        end = e.range.end;
    }
    if end < data_len {
        let problem = format!("{} bytes after the last tensor", data_len - end);
        return Err(At::new(file, FilePart::Header).corrupt("layout", format!("leaves {problem}")));
    }
    Ok(())
}
