//! NVFP4: 4-bit floats with an 8-bit float per 16 and one float32 for the whole matrix. ModelOpt multiplies by the latter,
//! compressed-tensors divides by it. ModelOpt's FP8 checkpoints have the same method name.

use super::{
    Method,
    bits::RowBits,
    codes::{Coded, Meaning},
    fp8,
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, HostTensor};

pub(super) static METHOD: Method = Method {
    name: "modelopt",
    aliases: &["modelopt_fp4", "modelopt_fp8", "modelopt_mxfp8"],
    forms: &[&MODELOPT, &fp8::FORM],
    ignored: &[],
};

static MODELOPT: Form = Form {
    codes: Ending("", ""),
    types: &[DType::U8],
    beside: &[Ending("", "_scale"), Ending("", "_scale_2")],
    open: |parts, _| open(parts, parts.get("_scale")?, |scale, whole| scale * whole, parts.get("_scale_2")?),
};

/// Two numbers in a byte, the first one in the low nibble; `combined` makes one factor of the scale of 16 numbers and
/// that of the whole matrix.
pub(super) fn open(
    parts: &Parts,
    scales: &HostTensor,
    combined: fn(f32, f32) -> f32,
    whole: &HostTensor,
) -> Result<Coded> {
    let [rows, bytes] = parts.matrix(&parts.codes)?;
    parts.expect(scales, &[rows, bytes / 8])?;
    let [whole] = parts.floats(whole)?[..] else {
        return Err(parts.wrong(format!("`{}` is {:?}, not one number", whole.name, whole.shape)));
    };
    let values = parts.floats(scales)?.into_iter().map(|scale| combined(scale, whole)).collect();
    let codes = RowBits { bytes: parts.codes.bytes.clone(), bits: 4, row_bytes: bytes };
    let groups = ScaleGroups::of_rows(16, bytes / 8);
    parts.coded([rows, 2 * bytes], codes, Meaning::e2m1(), groups, (values, vec![]))
}
