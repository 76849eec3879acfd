//! Reading little-endian fields off a stretch of bytes, every length checked against what is really there.

use super::{
    MAX_ARRAY_DEPTH,
    value::{Array, Strings, Value, type_id},
};
use crate::error::{At, Result};
use lamina_base::{Bytes, ReadError};
use std::ops::Range;

/// A position in the header of a file, of which a beginning is in memory.
pub(super) struct Cursor<'a> {
    bytes: &'a Bytes,
    /// The same bytes: reading through `bytes` asks its owner each time, which for a vocabulary adds up.
    data: &'a [u8],
    pos: usize,
    /// Where the header has to end: what is behind the beginning is not at hand yet.
    end: usize,
    /// How much of the file a beginning has to hold so that the field can be read that was behind it.
    wanted: Option<usize>,
}

macro_rules! read_numbers {
    ($($name:ident $ty:ident;)*) => {
        $(pub fn $name(&mut self, at: At, field: &'static str) -> Result<$ty> {
            let range = self.take(size_of::<$ty>() as u64, at, field)?;
            Ok(bytemuck::pod_read_unaligned(&self.data[range]))
        })*
    };
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`, the beginning of a header that ends before `end`.
    pub fn new(bytes: &'a Bytes, end: usize) -> Self {
        Cursor { bytes, data: bytes, pos: 0, end, wanted: None }
    }

    /// How long the beginning has to be; none when what is wrong is not its length.
    pub fn wanted(&self) -> Option<usize> {
        self.wanted
    }

    pub fn pos(&self) -> usize {
        self.pos
    }

    pub fn left(&self) -> usize {
        self.end - self.pos
    }

    read_numbers! { u32 u32; u64 u64; }

    /// The next `len` bytes as a range of the file.
    fn take(&mut self, len: u64, at: At, field: &'static str) -> Result<Range<usize>> {
        let left = self.left();
        match usize::try_from(len) {
            Ok(n) if n <= left && self.pos + n <= self.data.len() => {
                self.pos += n;
                Ok(self.pos - n..self.pos)
            }
            Ok(n) if n <= left => {
                self.wanted = Some(self.pos + n);
                Err(at.corrupt(field, "is behind what was read of the file"))
            }
            _ => {
                Err(at.corrupt(field, format!("needs {len} bytes where the file has {left} left (cut off?)")))
            }
        }
    }

    /// A count of things that take at least `each` bytes, refused when the rest of the file cannot hold them.
    pub fn count(&mut self, each: usize, at: At, field: &'static str) -> Result<u64> {
        let n = self.u64(at, field)?;
        self.fits(n, each, at, field)?;
        Ok(n)
    }

    /// Refuses `n` things of at least `each` bytes that the rest of the file cannot hold.
    pub fn fits(&self, n: u64, each: usize, at: At, field: &'static str) -> Result<()> {
        if n > (self.left() / each) as u64 {
            let left = self.left();
            return Err(
                at.corrupt(field, format!("is {n}, more than the {left} bytes left in the file can hold"))
            );
        }
        Ok(())
    }

    /// A length and as many bytes of UTF-8.
    pub fn text(&mut self, at: At, field: &'static str) -> Result<&'a str> {
        let len = self.u64(at, field)?;
        let range = self.take(len, at, field)?;
        std::str::from_utf8(&self.data[range])
            .map_err(|e| at.corrupt(field, format!("is not UTF-8 at byte {}", e.valid_up_to())))
    }

    /// A value of type `id`.
    pub fn value(&mut self, id: u32, at: At) -> Result<Value> {
        macro_rules! number {
            ($variant:ident $ty:ident) => {{
                let range = self.take(size_of::<$ty>() as u64, at, "value")?;
                Value::$variant(bytemuck::pod_read_unaligned(&self.data[range]))
            }};
        }
        Ok(match id {
            0 => number!(U8 u8),
            1 => number!(I8 i8),
            2 => number!(U16 u16),
            3 => number!(I16 i16),
            4 => number!(U32 u32),
            5 => number!(I32 i32),
            6 => number!(F32 f32),
            10 => number!(U64 u64),
            11 => number!(I64 i64),
            12 => number!(F64 f64),
            type_id::BOOL => {
                let range = self.take(1, at, "value")?;
                Value::Bool(truth(self.data[range.start], at)?)
            }
            type_id::STRING => Value::Str(self.text(at, "string")?.to_owned()),
            type_id::ARRAY => Value::Array(self.array(at, 1)?),
            _ => return Err(at.corrupt("value type", format!("{id} is not one of the 13 that GGUF defines"))),
        })
    }

    /// An array: element type, count, elements. `depth` counts the arrays around it, this one included.
    fn array(&mut self, at: At, depth: usize) -> Result<Array> {
        if depth > MAX_ARRAY_DEPTH {
            return Err(at.corrupt("array", format!("is nested deeper than {MAX_ARRAY_DEPTH} levels")));
        }
        let id = self.u32(at, "array element type")?;
        let count = self.u64(at, "array length")?;
        macro_rules! numbers {
            ($variant:ident $ty:ident) => {{
                self.fits(count, size_of::<$ty>(), at, "array length")?;
                let range = self.take(count * size_of::<$ty>() as u64, at, "array")?;
                Array::$variant(bytemuck::allocation::pod_collect_to_vec(&self.data[range]))
            }};
        }
        Ok(match id {
            0 => numbers!(U8 u8),
            1 => numbers!(I8 i8),
            2 => numbers!(U16 u16),
            3 => numbers!(I16 i16),
            4 => numbers!(U32 u32),
            5 => numbers!(I32 i32),
            6 => numbers!(F32 f32),
            10 => numbers!(U64 u64),
            11 => numbers!(I64 i64),
            12 => numbers!(F64 f64),
            type_id::BOOL => {
                let range = self.take(count, at, "array")?;
                Array::Bool(self.data[range].iter().map(|&b| truth(b, at)).collect::<Result<_>>()?)
            }
            type_id::STRING => Array::Str(self.strings(count, at)?),
            type_id::ARRAY => Array::Nested(self.nested(count, at, depth)?),
            _ => return Err(at.corrupt("array element type", format!("{id} is not one that GGUF defines"))),
        })
    }

    fn strings(&mut self, count: u64, at: At) -> Result<Strings> {
        self.fits(count, size_of::<u64>(), at, "array length")?;
        let begin = self.pos;
        let mut starts = vec![];
        starts.try_reserve_exact(count as usize).map_err(|_| ReadError::OutOfMemory {
            what: at.place.to_string(),
            bytes: count as usize * size_of::<u64>(),
        })?;
        for _ in 0..count {
            let len = self.u64(at, "string length")?;
            starts.push((self.pos - begin) as u64);
            self.take(len, at, "string")?;
        }
        let data = self.bytes.slice(begin..self.pos).ok_or_else(|| at.corrupt("array", "leaves the file"))?;
        Ok(Strings::from_file(data, starts))
    }

    fn nested(&mut self, count: u64, at: At, depth: usize) -> Result<Vec<Array>> {
        const SMALLEST_ARRAY: usize = size_of::<u32>() + size_of::<u64>();
        self.fits(count, SMALLEST_ARRAY, at, "array length")?;
        (0..count).map(|_| self.array(at, depth + 1)).collect()
    }
}

fn truth(byte: u8, at: At) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(at.corrupt("bool", format!("is {byte}, neither 0 nor 1"))),
    }
}
