//! The mixes that files are made in, under the names that llama.cpp gave them.

use lamina_base::DType;

/// A recipe for the types of a whole file: one type for most matrices, and exceptions that the quantizer knows.
#[derive(Debug, PartialEq)]
pub struct Mix {
    /// The name that users write.
    pub name: &'static str,
    /// Another name for it.
    alias: &'static str,
    /// Number in `general.file_type`.
    pub file_type: u32,
    /// Type of everything without an exception.
    pub dtype: DType,
}

impl Mix {
    /// The mix of one plain float.
    pub fn plain(dtype: DType) -> Option<&'static Mix> {
        MIXES.iter().find(|m| m.dtype == dtype && !dtype.is_quantized())
    }

    /// The name and its other form.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.alias].into_iter().filter(|n| !n.is_empty())
    }
}

macro_rules! mixes {
    ($($name:literal $alias:literal $number:literal $dtype:ident;)*) => {
        /// All mixes, largest first.
        pub static MIXES: &[Mix] = &[$(
            Mix { name: $name, alias: $alias, file_type: $number, dtype: DType::$dtype },
        )*];
    };
}

// Numbers: `LlamaFileType` of the `gguf` package.
mixes! {
    "F32" "" 0 F32;
    "F16" "" 1 F16;
    "BF16" "" 32 BF16;
    "Q8_0" "" 7 Q8_0;
    "Q6_K" "" 18 Q6_K;
    "Q5_K_M" "Q5_K" 17 Q5_K;
    "Q5_K_S" "" 16 Q5_K;
    "Q5_1" "" 9 Q5_1;
    "Q5_0" "" 8 Q5_0;
    "Q4_K_M" "Q4_K" 15 Q4_K;
    "Q4_K_S" "" 14 Q4_K;
    "Q4_1" "" 3 Q4_1;
    "Q4_0" "" 2 Q4_0;
    "IQ4_NL" "" 25 IQ4_NL;
    "IQ4_XS" "" 30 IQ4_XS;
    "MXFP4_MOE" "MXFP4" 38 MXFP4;
    "NVFP4" "" 39 NVFP4;
    "Q3_K_L" "" 13 Q3_K;
    "Q3_K_M" "Q3_K" 12 Q3_K;
    "Q3_K_S" "" 11 Q3_K;
    "IQ3_M" "" 27 IQ3_S;
    "IQ3_S" "" 26 IQ3_S;
    "IQ3_XS" "" 22 IQ3_S;
    "IQ3_XXS" "" 23 IQ3_XXS;
    "Q2_K" "" 10 Q2_K;
    "Q2_K_S" "" 21 Q2_K;
    "IQ2_M" "" 29 IQ2_S;
    "IQ2_S" "" 28 IQ2_XS;
    "IQ2_XS" "" 20 IQ2_XS;
    "IQ2_XXS" "" 19 IQ2_XXS;
    "IQ1_M" "" 31 IQ1_M;
    "IQ1_S" "" 24 IQ1_S;
    "TQ2_0" "" 37 TQ2_0;
    "TQ1_0" "" 36 TQ1_0;
    "Q1_0" "" 40 Q1_0;
}
