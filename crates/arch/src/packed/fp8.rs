//! 8-bit floats with scales: DeepSeek V3 and Qwen 3 (a scale per 128 x 128), compressed-tensors `float-quantized`, FBGEMM
//! (a scale per row), ModelOpt FP8 (one scale), MXFP8 (a power of two per 32).
//!
//! `weight_scale_inv` is a factor like `weight_scale`: it is the inverse of what the weights were multiplied by.

use super::{
    Method, Settings,
    bits::RowBits,
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, HostTensor};

pub(super) static METHOD: Method =
    Method { name: "fp8", aliases: &["fbgemm_fp8", "mxfp8"], forms: &[&FORM], ignored: &["input_scale_ub"] };

/// One 8-bit float per weight under the weight's own name.
pub(super) static FORM: Form = Form {
    codes: Ending("", ""),
    types: &[DType::F8_E4M3, DType::F8_E5M2],
    beside: &[Ending("", INVERSE), Ending("", SCALE)],
    open,
};

const INVERSE: &str = "_scale_inv";
const SCALE: &str = "_scale";

fn open(parts: &Parts, settings: &Settings) -> Result<Coded> {
    let scale = match parts.opt(INVERSE) {
        Some(scale) => scale,
        None => parts.get(SCALE)?,
    };
    let block = settings.numbers("weight_block_size");
    let shape = Stacked::of(&parts.codes);
    let groups = shape.groups(parts, scale, &block)?;
    let scales = match scale.dtype {
        // MXFP8: exponents in bytes.
        DType::U8 => parts.floats(&HostTensor { dtype: DType::F8_E8M0, ..scale.clone() })?,
        _ => parts.floats(scale)?,
    };
    let codes = RowBits { bytes: parts.codes.bytes.clone(), bits: 8, row_bytes: shape.cols };
    let meaning = Meaning::bytes(parts.codes.dtype)?;
    parts.coded([shape.matrices * shape.rows, shape.cols], codes, meaning, groups, (scales, vec![]))
}

/// Extents of a weight: `matrices` of `rows x cols`, more than one for batched experts.
pub(super) struct Stacked {
    pub matrices: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Stacked {
    /// The extents of `t`.
    pub fn of(t: &HostTensor) -> Stacked {
        let [outer @ .., rows, cols] = &t.shape[..] else {
            return Stacked { matrices: 1, rows: 1, cols: t.cols() };
        };
        Stacked { matrices: outer.iter().product(), rows: *rows, cols: *cols }
    }

    /// How `scale` is spread over this weight: one for all, one per matrix, one per row, or a grid of blocks. Blocks
    /// have the size `block` of the configuration where that fits, and otherwise divide the weight evenly.
    ///
    /// # Errors
    /// When it fits in no way.
    pub fn groups(&self, parts: &Parts, scale: &HostTensor, block: &[usize]) -> Result<ScaleGroups> {
        let Stacked { matrices, rows, cols } = *self;
        let [down, across] = self.grid(scale).ok_or_else(|| self.unfit(parts, scale))?;
        let size = |extent: usize, scales: usize, block: Option<&usize>| {
            let said = block.copied().filter(|b| *b > 0 && extent.div_ceil(*b) == scales);
            said.or_else(|| (scales > 0 && extent.is_multiple_of(scales)).then(|| extent / scales))
        };
        let high = size(rows, down, block.first()).ok_or_else(|| self.unfit(parts, scale))?;
        let wide = size(cols, across, block.get(1)).ok_or_else(|| self.unfit(parts, scale))?;
        // One scale for everything.
        let matrix = if scale.elements() == 1 { matrices * rows } else { rows };
        let rows = if down == 1 { matrix } else { high };
        Ok(ScaleGroups::Blocks { matrix, rows, cols: wide, down, across })
    }

    /// Scales down and across one matrix.
    fn grid(&self, scale: &HostTensor) -> Option<[usize; 2]> {
        let Stacked { matrices, rows, .. } = *self;
        match scale.shape[..] {
            _ if scale.elements() == 1 => Some([1, 1]),
            [n] if n == rows && matrices == 1 => Some([rows, 1]),
            [n] if n == matrices => Some([1, 1]),
            [down, across] if matrices == 1 => Some([down, across]),
            [m, down, across] if m == matrices => Some([down, across]),
            [m, down] if m == matrices && down == rows => Some([rows, 1]),
            _ => None,
        }
    }

    fn unfit(&self, parts: &Parts, scale: &HostTensor) -> crate::error::ArchError {
        let Stacked { matrices, rows, cols } = self;
        let weight = format!("{matrices} matrices of {rows} x {cols}");
        parts.wrong(format!(
            "`{}` is {:?}, which does not divide {weight} into groups",
            scale.name, scale.shape
        ))
    }
}
