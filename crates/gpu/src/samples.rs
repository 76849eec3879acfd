//! Numbers in the types of model files, for checks of a device.

use lamina_arch::ArchError;
use lamina_base::DType;
use lamina_plan::backend::Result;

/// Bytes of a file that hold `numbers`, which fill whole blocks, as well as `dtype` can. 8-bit floats, which are only read,
/// get other numbers below 2.
pub(crate) fn stored(dtype: DType, numbers: &[f32]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; dtype.bytes_for(numbers.len()).unwrap_or_default()];
    match lamina_quant::format(dtype) {
        Some(_) => lamina_quant::encode(dtype, numbers, None, &mut bytes).map_err(ArchError::from)?,
        // Without the highest bit of its exponent, either 8-bit float is finite and below 2.
        None => bytes.iter_mut().zip(numbers).for_each(|(b, v)| *b = (v.to_bits() >> 12) as u8 & 0xbf),
    }
    Ok(bytes)
}
