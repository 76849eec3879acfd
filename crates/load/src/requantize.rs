//! Quantizing at load: matrices are encoded to another type before a backend takes them.

use crate::error::{Error, Result};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, human_bytes, on_threads};

/// The type that rows of `cols` numbers have after [`requantize`] from `from` to `to`.
pub fn becomes(from: DType, to: DType, cols: usize) -> DType {
    if to.bytes_for(cols).is_some() { to } else { from }
}

/// `tensor` as `dtype`; unchanged where its rows are no whole blocks of the new type.
///
/// # Errors
/// When a value cannot be held, such as NaN.
pub fn requantize(tensor: Tensor, dtype: DType, threads: usize) -> Result<Tensor> {
    let Some(row_bytes) = dtype.bytes_for(tensor.cols).filter(|_| tensor.dtype != dtype) else {
        return Ok(tensor);
    };
    let rows = tensor.rows();
    let mut out = vec![];
    out.try_reserve_exact(rows * row_bytes).map_err(|_| {
        let bytes = human_bytes((rows * row_bytes) as u64);
        Error::OutOfMemory(format!("tensor `{}` takes {bytes} as {dtype}, which cannot be had", tensor.name))
    })?;
    out.resize(rows * row_bytes, 0u8);
    let chunk = rows.div_ceil(threads.max(1)).max(1);
    let chunks = out.chunks_mut(chunk * row_bytes).enumerate();
    let failed = on_threads(chunks, |(i, out)| encode_rows(&tensor, dtype, i * chunk, row_bytes, out));
    if let Some(problem) = failed.into_iter().flatten().next() {
        return Err(Error::Format(format!("tensor `{}` cannot become {dtype}: {problem}", tensor.name)));
    }
    Tensor::from_bytes(&tensor.name, dtype, rows, tensor.cols, out).map_err(|e| Error::Format(e.to_string()))
}

fn encode_rows(
    tensor: &Tensor,
    dtype: DType,
    first: usize,
    row_bytes: usize,
    out: &mut [u8],
) -> Option<String> {
    let (mut values, mut stored) = (vec![0f32; tensor.cols], vec![0; tensor.row_bytes()]);
    out.chunks_exact_mut(row_bytes).enumerate().find_map(|(i, out)| {
        if let Err(e) = tensor.read(first + i..first + i + 1, &mut stored) {
            return Some(e.to_string());
        }
        let done = lamina_quant::decode(tensor.dtype, &stored, &mut values)
            .and_then(|()| lamina_quant::encode(dtype, &values, None, out));
        done.err().map(|e| e.to_string())
    })
}
