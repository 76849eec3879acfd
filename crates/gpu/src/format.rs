//! Weight types with kernels of their own, and how their blocks become panels (`kernels/panel.h`).

use crate::args::Field;
use lamina_base::DType;
use lamina_plan::{WeightKind, WeightSpec};

/// Outputs of a panel: the lanes of a warp.
pub(crate) const LANES: usize = 32;

/// A weight type as the kernels read it.
#[derive(Debug)]
pub(crate) struct PanelFormat {
    pub dtype: DType,
    /// Inputs of a block: at least 32, whatever the type itself calls a block.
    pub inputs: usize,
    /// Fields of a block in the order of the panel.
    pub fields: &'static [Field],
    pub few: &'static str,
    pub many: &'static str,
    pub each: &'static str,
    pub lookup: &'static str,
}

macro_rules! formats {
    ($($dtype:ident $name:literal $inputs:literal [$(($at:literal, $bytes:literal, $word:literal))*];)*) => {
        /// Types that are multiplied as they are stored; a line here, a name in `types.h`, lines in `list.h`
        /// and a file of `kernels/formats` each.
        pub(crate) const FORMATS: &[PanelFormat] = &[$(PanelFormat {
            dtype: DType::$dtype,
            inputs: $inputs,
            fields: &[$(Field { at: $at, bytes: $bytes, word: $word },)*],
            few: concat!("product_few_", $name),
            many: concat!("product_many_", $name),
            each: concat!("product_each_", $name),
            lookup: concat!("lookup_", $name),
        },)*];
    };
}

// Fields: first byte in the file's block, bytes, bytes of a word.
formats! {
    F32 "f32" 32 [(0, 128, 16)];
    F16 "f16" 32 [(0, 64, 16)];
    BF16 "bf16" 32 [(0, 64, 16)];
    F8_E4M3 "f8_e4m3" 32 [(0, 32, 16)];
    F8_E5M2 "f8_e5m2" 32 [(0, 32, 16)];
    Q8_0 "q8_0" 32 [(2, 32, 16) (0, 2, 2)];
    Q4_0 "q4_0" 32 [(2, 16, 16) (0, 2, 2)];
    Q4_1 "q4_1" 32 [(4, 16, 16) (0, 4, 4)];
    Q5_0 "q5_0" 32 [(6, 16, 16) (2, 4, 4) (0, 2, 2)];
    Q5_1 "q5_1" 32 [(8, 16, 16) (0, 4, 4) (4, 4, 4)];
    MXFP4 "mxfp4" 32 [(1, 16, 16) (0, 1, 1)];
    NVFP4 "nvfp4" 64 [(4, 32, 16) (0, 4, 4)];
    IQ4_NL "iq4_nl" 32 [(2, 16, 16) (0, 2, 2)];
    IQ4_XS "iq4_xs" 256 [(8, 128, 16) (0, 4, 4) (4, 4, 4)];
    Q2_K "q2_k" 256 [(16, 64, 16) (0, 16, 4) (80, 4, 4)];
    Q3_K "q3_k" 256 [(32, 64, 16) (0, 32, 16) (96, 12, 4) (108, 2, 2)];
    Q4_K "q4_k" 256 [(16, 128, 16) (0, 4, 4) (4, 12, 4)];
    Q5_K "q5_k" 256 [(48, 128, 16) (16, 32, 16) (0, 4, 4) (4, 12, 4)];
    Q6_K "q6_k" 256 [(0, 128, 16) (128, 64, 16) (192, 16, 16) (208, 2, 2)];
}

/// Matrices of a weight, rows of each and columns.
pub(crate) fn matrices(spec: &WeightSpec) -> (usize, usize, usize) {
    match spec.kind {
        WeightKind::Vector { len } => (1, 1, len),
        WeightKind::Matrix { rows, cols } | WeightKind::Table { rows, cols } => (1, rows, cols),
        WeightKind::Stack { count, rows, cols } => (count, rows, cols),
    }
}

impl PanelFormat {
    /// The format that matrices of `dtype` run as: their own, or a plain one that holds their values, with float16
    /// rounding at most for block types.
    pub fn of(dtype: DType) -> &'static PanelFormat {
        let native = |dtype: DType| FORMATS.iter().find(|f| f.dtype == dtype);
        let plain = if dtype.is_quantized() { DType::F16 } else { DType::F32 };
        native(dtype).or_else(|| native(plain)).unwrap_or(&FORMATS[0])
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.fields.iter().map(|f| f.bytes as usize).sum()
    }

    /// Blocks of a row of `cols` numbers.
    pub fn blocks(&self, cols: usize) -> usize {
        cols.div_ceil(self.inputs)
    }

    /// Bytes of a stored row of `cols` numbers.
    pub fn row_bytes(&self, cols: usize) -> usize {
        self.dtype.bytes_for(cols).unwrap_or_default()
    }

    /// Bytes of a panel with rows of `cols` numbers.
    pub fn panel_bytes(&self, cols: usize) -> usize {
        self.blocks(cols) * self.block_bytes() * LANES
    }

    /// Bytes on the device of a weight of `dtype`; vectors are kept as float32.
    pub fn weight_bytes(spec: &WeightSpec, dtype: DType) -> usize {
        let format = PanelFormat::of(dtype);
        let panels =
            |count: usize, rows: usize, cols| count * rows.div_ceil(LANES) * format.panel_bytes(cols);
        match spec.kind {
            WeightKind::Vector { len } => len * size_of::<f32>(),
            WeightKind::Matrix { rows, cols } | WeightKind::Table { rows, cols } => panels(1, rows, cols),
            WeightKind::Stack { count, rows, cols } => panels(count, rows, cols),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_hold_every_byte_of_a_block_once() {
        for f in FORMATS {
            let mut fields: Vec<_> = f.fields.iter().collect();
            fields.sort_by_key(|field| field.at);
            let end = fields.iter().fold(0, |at, field| {
                assert_eq!((field.at, field.bytes % field.word), (at, 0), "{}", f.dtype);
                at + field.bytes
            });
            assert_eq!(Some(end as usize), f.dtype.bytes_for(f.inputs), "{}", f.dtype);
            // A field that is read by 16 bytes begins at a multiple of 16 of the panel.
            let words: Vec<_> = f.fields.iter().map(|field| field.word).collect();
            assert!(words.is_sorted_by(|a, b| a >= b), "{}", f.dtype);
        }
    }
}
