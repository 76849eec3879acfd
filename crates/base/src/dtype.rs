//! The one table of element types: name, GGUF id, and how many elements a block of how many bytes holds.

use std::{fmt, str::FromStr};

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $gguf:expr, $block:literal, $bytes:literal;)*) => {
        /// Element type of a stored tensor. A quantized type is a block of several elements.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(non_camel_case_types)] // the names that model files and their users write
        pub enum DType { $($(#[$doc])* $variant,)* }

        impl DType {
            /// Every type, in the order of the table.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The name that users and files write, such as `Q4_K`.
            pub const fn name(self) -> &'static str { match self { $(DType::$variant => $name,)* } }

            /// Type id inside a GGUF file, if the format knows this type.
            pub const fn gguf_id(self) -> Option<u32> { match self { $(DType::$variant => $gguf,)* } }

            /// Elements in one block; 1 for plain types. The rows of a tensor hold whole blocks.
            pub const fn block_len(self) -> usize { match self { $(DType::$variant => $block,)* } }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize { match self { $(DType::$variant => $bytes,)* } }
        }
    };
}

dtypes! {
    /// IEEE binary32.
    F32 "F32" Some(0), 1, 4;
    /// IEEE binary16.
    F16 "F16" Some(1), 1, 2;
    /// Upper half of binary32.
    BF16 "BF16" Some(30), 1, 2;
    /// IEEE binary64.
    F64 "F64" Some(28), 1, 8;
    /// 8-bit float, 4 exponent bits, no infinities (OCP e4m3fn).
    F8_E4M3 "F8_E4M3" None, 1, 1;
    /// 8-bit float, 5 exponent bits (OCP e5m2).
    F8_E5M2 "F8_E5M2" None, 1, 1;
    /// Power-of-two scale (OCP e8m0).
    F8_E8M0 "F8_E8M0" None, 1, 1;
    /// Signed byte.
    I8 "I8" Some(24), 1, 1;
    /// Signed 16 bit.
    I16 "I16" Some(25), 1, 2;
    /// Signed 32 bit.
    I32 "I32" Some(26), 1, 4;
    /// Signed 64 bit.
    I64 "I64" Some(27), 1, 8;
    /// Unsigned byte.
    U8 "U8" None, 1, 1;
    /// Unsigned 16 bit.
    U16 "U16" None, 1, 2;
    /// Unsigned 32 bit.
    U32 "U32" None, 1, 4;
    /// Unsigned 64 bit.
    U64 "U64" None, 1, 8;
    /// One byte, 0 or 1.
    Bool "BOOL" None, 1, 1;
    /// 4 bit, one scale per 32.
    Q4_0 "Q4_0" Some(2), 32, 18;
    /// 4 bit, scale and minimum per 32.
    Q4_1 "Q4_1" Some(3), 32, 20;
    /// 5 bit, one scale per 32.
    Q5_0 "Q5_0" Some(6), 32, 22;
    /// 5 bit, scale and minimum per 32.
    Q5_1 "Q5_1" Some(7), 32, 24;
    /// 8 bit, one scale per 32.
    Q8_0 "Q8_0" Some(8), 32, 34;
    /// 2 bit, sixteen 4-bit scales and minimums per 256.
    Q2_K "Q2_K" Some(10), 256, 84;
    /// 3 bit, sixteen 6-bit scales per 256.
    Q3_K "Q3_K" Some(11), 256, 110;
    /// 4 bit, eight 6-bit scales and minimums per 256.
    Q4_K "Q4_K" Some(12), 256, 144;
    /// 5 bit, eight 6-bit scales and minimums per 256.
    Q5_K "Q5_K" Some(13), 256, 176;
    /// 6 bit, sixteen 8-bit scales per 256.
    Q6_K "Q6_K" Some(14), 256, 210;
    /// 2.06 bit, codebook of 256 vectors of 8.
    IQ2_XXS "IQ2_XXS" Some(16), 256, 66;
    /// 2.31 bit, codebook of 512 vectors of 8.
    IQ2_XS "IQ2_XS" Some(17), 256, 74;
    /// 2.56 bit, codebook of 1024 vectors of 8.
    IQ2_S "IQ2_S" Some(22), 256, 82;
    /// 3.06 bit, codebook of 256 vectors of 4.
    IQ3_XXS "IQ3_XXS" Some(18), 256, 98;
    /// 3.44 bit, codebook of 512 vectors of 4.
    IQ3_S "IQ3_S" Some(21), 256, 110;
    /// 1.56 bit, codebook of 2048 ternary vectors of 8.
    IQ1_S "IQ1_S" Some(19), 256, 50;
    /// 1.75 bit, codebook of 2048 ternary vectors of 8.
    IQ1_M "IQ1_M" Some(29), 256, 56;
    /// 4 bit with unequal steps, one scale per 32.
    IQ4_NL "IQ4_NL" Some(20), 32, 18;
    /// 4 bit with unequal steps, eight 6-bit scales per 256.
    IQ4_XS "IQ4_XS" Some(23), 256, 136;
    /// Ternary, 1.69 bit.
    TQ1_0 "TQ1_0" Some(34), 256, 54;
    /// Ternary, 2.06 bit.
    TQ2_0 "TQ2_0" Some(35), 256, 66;
    /// OCP microscaling 4-bit float, one power-of-two scale per 32.
    MXFP4 "MXFP4" Some(39), 32, 17;
    /// 4-bit float with an 8-bit float scale per 16.
    NVFP4 "NVFP4" Some(40), 64, 36;
    /// One sign bit per weight, one scale per 128.
    Q1_0 "Q1_0" Some(41), 128, 18;
}

impl DType {
    /// The type that a GGUF file means by `id`, if any.
    pub fn from_gguf_id(id: u32) -> Option<DType> {
        Self::ALL.iter().copied().find(|t| t.gguf_id() == Some(id))
    }

    /// Bytes that `elements` take, or `None` when they do not fill whole blocks or the product overflows.
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        elements
            .is_multiple_of(self.block_len())
            .then(|| (elements / self.block_len()).checked_mul(self.block_bytes()))?
    }

    /// True for types whose block holds more than one element.
    pub const fn is_quantized(self) -> bool {
        self.block_len() > 1
    }

    /// Bits per element, for reports.
    pub fn bits(self) -> f32 {
        self.block_bytes() as f32 * 8.0 / self.block_len() as f32
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A type name that no row of the table has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown type `{0}`; known types: {known}", known = DType::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(" "))]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    /// Reads a name in any letter case.
    fn from_str(s: &str) -> Result<Self, UnknownDType> {
        let found = Self::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(s));
        found.ok_or_else(|| UnknownDType(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_unique_and_round_trip() {
        for &t in DType::ALL {
            assert_eq!(t.name().to_lowercase().parse(), Ok(t));
            if let Some(id) = t.gguf_id() {
                assert_eq!(DType::from_gguf_id(id), Some(t));
            }
        }
    }

    #[test]
    fn partial_blocks_and_overflow_have_no_size() {
        assert_eq!(DType::Q4_0.bytes_for(64), Some(36));
        assert_eq!(DType::Q4_0.bytes_for(33), None);
        assert_eq!(DType::F64.bytes_for(usize::MAX / 4), None);
    }
}
