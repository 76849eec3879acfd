//! Whole rows and tensors: the checked way in and out of every stored type.

use lamina_base::{DType, HostTensor, zeros};

use crate::{QuantError, formats, plain};

/// Decodes `blocks` of any stored type into `out`, which has exactly the elements that the bytes hold.
///
/// # Errors
/// When the bytes are no whole blocks or `out` has another number of elements.
pub fn decode(dtype: DType, blocks: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    check_sizes(dtype, blocks.len(), out.len())?;
    match formats::format(dtype) {
        Some(format) => format.decode(blocks, out),
        None => plain::decode(dtype, blocks, out),
    }
    Ok(())
}

/// Encodes `x` as `dtype` into `out`.
///
/// `importance` has one weight per column, as an importance matrix gives it; `x` is then any number of rows of that
/// length. The same input gives the same bytes on every machine. Types that are coarser than a byte use the
/// weights in their search; Q8_0 and the plain floats have no use for them.
///
/// # Errors
/// When sizes do not fit whole blocks, the importance is unusable, a quantized type is asked to hold NaN or an
/// infinity, or `dtype` is a type that Lamina only reads.
pub fn encode(dtype: DType, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), QuantError> {
    let format = formats::format(dtype).ok_or(QuantError::CannotEncode(dtype))?;
    check_sizes(dtype, out.len(), x.len())?;
    check_importance(dtype, x.len(), importance)?;
    if dtype.is_quantized() {
        check_finite(dtype, x)?;
    }
    format.encode(x, importance, out);
    Ok(())
}

/// All values of a tensor of any type, in the order of its rows.
///
/// # Errors
/// When the tensor's bytes do not fit its shape or cannot be read, or there is no memory.
pub fn to_f32(tensor: &HostTensor) -> Result<Vec<f32>, QuantError> {
    let (dtype, bytes) = (tensor.dtype, tensor.bytes.len());
    let elements = tensor.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(usize::MAX);
    if !tensor.cols().is_multiple_of(dtype.block_len()) {
        return Err(size_mismatch(dtype, bytes, tensor.cols()));
    }
    // Before anything is allocated: a shape alone could ask for any amount of memory.
    check_sizes(dtype, bytes, elements)?;
    let label = tensor.label();
    let mut out = zeros(elements, &label)?;
    decode(dtype, &tensor.bytes.read(&label)?, &mut out)?;
    Ok(out)
}

fn check_sizes(dtype: DType, bytes: usize, elements: usize) -> Result<(), QuantError> {
    let block = dtype.block_bytes();
    if !bytes.is_multiple_of(block) {
        return Err(QuantError::PartialBlock { dtype, bytes, block });
    }
    (dtype.bytes_for(elements) == Some(bytes))
        .then_some(())
        .ok_or_else(|| size_mismatch(dtype, bytes, elements))
}

fn size_mismatch(dtype: DType, bytes: usize, elements: usize) -> QuantError {
    let whole = || format!("whole blocks of {} elements", dtype.block_len());
    let need = dtype.bytes_for(elements).map_or_else(whole, |n| format!("{n} bytes"));
    QuantError::SizeMismatch { dtype, elements, need, bytes }
}

fn check_importance(dtype: DType, elements: usize, importance: Option<&[f32]>) -> Result<(), QuantError> {
    let Some(weights) = importance else { return Ok(()) };
    let (columns, block) = (weights.len(), dtype.block_len());
    if columns == 0 || !elements.is_multiple_of(columns) || !columns.is_multiple_of(block) {
        return Err(QuantError::ImportanceLength { dtype, columns, elements, block });
    }
    match weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
        Some(column) => Err(QuantError::ImportanceValue { dtype, column, value: weights[column] }),
        None => Ok(()),
    }
}

fn check_finite(dtype: DType, x: &[f32]) -> Result<(), QuantError> {
    match x.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(QuantError::NotFinite { dtype, index, value: x[index] }),
        None => Ok(()),
    }
}
