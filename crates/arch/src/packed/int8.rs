//! Signed bytes under the weight's own name with a scale per row or group: compressed-tensors `int-quantized`.

use super::{
    Settings,
    bits::RowBits,
    codes::{Coded, Meaning},
    fp8::Stacked,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::DType;

pub(super) static FORM: Form =
    Form { codes: Ending("", ""), types: &[DType::I8], beside: &[Ending("", SCALE), Ending("", ZERO)], open };

const SCALE: &str = "_scale";
const ZERO: &str = "_zero_point";

fn open(parts: &Parts, _: &Settings) -> Result<Coded> {
    let shape = Stacked::of(&parts.codes);
    let scale = parts.get(SCALE)?;
    let groups = shape.groups(parts, scale, &[])?;
    let zeros = match parts.opt(ZERO) {
        Some(zero) => {
            parts.expect(zero, &scale.shape)?;
            parts.floats(zero)?
        }
        None => vec![],
    };
    let codes = RowBits { bytes: parts.codes.bytes.clone(), bits: 8, row_bytes: shape.cols };
    let size = [shape.matrices * shape.rows, shape.cols];
    parts.coded(size, codes, Meaning::bytes(DType::I8)?, groups, (parts.floats(scale)?, zeros))
}
