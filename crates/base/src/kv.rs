//! How a cache of keys and values is paged, and in which number types: plans, kernels and backends mean the same by it.

use crate::dtype::DType;
use std::{fmt, str::FromStr};

/// Positions per page. Prefixes are shared, and memory is given out, in pages.
///
/// 32 keeps a page a whole number of 8- and 16-lane tiles and wastes at most 31 positions a sequence.
pub const PAGE_LEN: usize = 32;

/// Number type of stored keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    BF16,
    /// 8 bit with a float16 scale per 32.
    Q8_0,
    /// 4 bit with a float16 scale per 32.
    Q4_0,
    /// 4 bit between the smallest and the largest of each 32: FlexGen's group-wise compression (arXiv 2303.06865).
    Q4_1,
    /// 8-bit float, 4 exponent bits.
    F8,
}

impl KvType {
    /// All types with the names that users write.
    pub const ALL: &'static [(&'static str, KvType)] = &[
        ("f32", KvType::F32),
        ("f16", KvType::F16),
        ("bf16", KvType::BF16),
        ("q8_0", KvType::Q8_0),
        ("q4_0", KvType::Q4_0),
        ("q4_1", KvType::Q4_1),
        ("fp8", KvType::F8),
    ];

    /// The element type that the name stands for.
    pub fn dtype(self) -> DType {
        match self {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::BF16 => DType::BF16,
            KvType::Q8_0 => DType::Q8_0,
            KvType::Q4_0 => DType::Q4_0,
            KvType::Q4_1 => DType::Q4_1,
            KvType::F8 => DType::F8_E4M3,
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KvType::ALL.iter().find(|(_, t)| t == self).map_or("", |(name, _)| name))
    }
}

/// A cache type name that is not in [`KvType::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kv_dtype `{0}`; known: f32 f16 bf16 q8_0 q4_0 q4_1 fp8")]
pub struct UnknownKvType(String);

impl FromStr for KvType {
    type Err = UnknownKvType;
    fn from_str(s: &str) -> Result<Self, UnknownKvType> {
        let found = KvType::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(s));
        found.map(|&(_, t)| t).ok_or_else(|| UnknownKvType(s.to_owned()))
    }
}

/// Number types of a layer group's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvTypes {
    /// Keys; latents too.
    pub k: KvType,
    /// Values.
    pub v: KvType,
}

impl From<KvType> for KvTypes {
    fn from(one: KvType) -> KvTypes {
        KvTypes { k: one, v: one }
    }
}

impl fmt::Display for KvTypes {
    /// `q8_0`, or `k=q8_0,v=q4_0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.k == self.v {
            return write!(f, "{}", self.k);
        }
        write!(f, "k={},v={}", self.k, self.v)
    }
}
