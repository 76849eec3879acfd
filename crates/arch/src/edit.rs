//! Changes of values at load: matrices turned, norms and decay rates that are stored as something else.

use crate::{error::Result, names::Edit, tensor::Tensor};
use lamina_base::{DType, HostTensor, zeros};

/// Each matrix with its two inner extents exchanged, as float32 unless the type is plain and can be moved as bytes.
pub(crate) fn transpose_all(parts: &[HostTensor]) -> Result<Vec<HostTensor>> {
    parts.iter().map(transpose).collect()
}

pub(crate) fn transpose(t: &HostTensor) -> Result<HostTensor> {
    let [.., rows, cols] = t.shape[..] else { return Ok(t.clone()) };
    if t.elements() == 0 {
        return Ok(t.clone());
    }
    let (size, dtype, bytes) = if t.dtype.is_quantized() {
        let values = lamina_quant::to_f32(t)?;
        (4, DType::F32, bytemuck::cast_slice(&values).to_vec())
    } else {
        (t.dtype.block_bytes(), t.dtype, t.bytes.read(&t.label())?.into_owned())
    };
    let mut out: Vec<u8> = zeros(bytes.len(), &t.label())?;
    for (from, to) in bytes.chunks_exact(rows * cols * size).zip(out.chunks_exact_mut(rows * cols * size)) {
        for (i, value) in from.chunks_exact(size).enumerate() {
            let at = (i % cols * rows + i / cols) * size;
            to[at..at + size].copy_from_slice(value);
        }
    }
    let mut shape = t.shape.clone();
    let n = shape.len();
    shape.swap(n - 2, n - 1);
    Ok(HostTensor { name: t.name.clone(), dtype, shape, bytes: out.into() })
}

/// Every `rows` rows of `t` as a matrix of their own, transposed.
pub(crate) fn transposed_blocks(t: &Tensor, rows: usize) -> Result<Tensor> {
    let blocks = t.rows() / rows.max(1);
    let (dtype, bytes) = if t.dtype.is_quantized() {
        (DType::F32, bytemuck::cast_slice(&t.to_f32()?).to_vec())
    } else {
        let mut bytes = zeros(t.bytes(), &format!("tensor `{}`", t.name))?;
        t.read(0..t.rows(), &mut bytes)?;
        (t.dtype, bytes)
    };
    let shape = vec![blocks, rows, t.cols];
    let stored = HostTensor::new(t.name.clone(), dtype, shape, bytes)
        .map_err(|_| t.shape_error(format!("whole blocks of {rows} rows")))?;
    Ok(Tensor::new(vec![transpose(&stored)?]))
}

pub(crate) fn edited(tensor: Tensor, edit: Edit) -> Result<Tensor> {
    let change: fn(f32) -> f32 = match edit {
        Edit::None | Edit::Transpose | Edit::TransposeCut => return Ok(tensor),
        Edit::PlusOne => |w| 1.0 + w,
        Edit::NegExp => |w| -w.exp(),
    };
    let values: Vec<f32> = tensor.to_f32()?.into_iter().map(change).collect();
    Ok(Tensor::from_f32(&tensor.name, tensor.rows(), tensor.cols, &values))
}
