//! MXFP4 (OCP microscaling): 4-bit floats with a power of two per 32. gpt-oss keeps the experts of a layer in two tensors,
//! `*_blocks` and `*_scales`, with outputs as rows; compressed-tensors packs single matrices.

use super::{
    Method,
    bits::RowBits,
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, HostTensor};

pub(super) static METHOD: Method = Method { name: "mxfp4", aliases: &[], forms: &[&EXPERTS], ignored: &[] };

static EXPERTS: Form = Form {
    codes: Ending("_blocks", "_blocks"),
    types: &[DType::U8],
    beside: &[Ending("_blocks", "_scales")],
    open: |parts, _| open(parts, parts.get("_scales")?),
};

/// `[.. rows, groups, 16]` or `[.. rows, 16 groups]` bytes beside `[.. rows, groups]` exponents.
pub(super) fn open(parts: &Parts, exponents: &HostTensor) -> Result<Coded> {
    if !matches!(exponents.dtype, DType::U8 | DType::F8_E8M0) {
        return Err(parts.wrong(format!("`{}` is {}, but must be U8", exponents.name, exponents.dtype)));
    }
    let [outer @ .., groups] = &exponents.shape[..] else {
        return Err(parts.wrong(format!("`{}` has no extents", exponents.name)));
    };
    let shape = &parts.codes.shape;
    let flat = shape.len() == exponents.shape.len();
    let want =
        if flat { [outer, &[groups.saturating_mul(16)]].concat() } else { [outer, &[*groups, 16]].concat() };
    parts.expect(&parts.codes, &want)?;
    let (rows, cols) = (exponents.rows(), 32 * groups);
    let scales = parts.floats(&HostTensor { dtype: DType::F8_E8M0, ..exponents.clone() })?;
    let codes = RowBits { bytes: parts.codes.bytes.clone(), bits: 4, row_bytes: 16 * groups };
    parts.coded([rows, cols], codes, Meaning::e2m1(), ScaleGroups::of_rows(32, *groups), (scales, vec![]))
}
