use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::e2m1;
use crate::{
    BlockFormat,
    bits::{nibbles, pack_nibbles},
    search::{Normal, largest},
};

/// OCP microscaling: 32 floats of 4 bits (e2m1) with a common power of two: `x = 2^(e - 128) * VALUES[q]`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMXFP4 {
    /// Exponent with a bias of 127, of the true e2m1 values; [`BlockMXFP4::VALUES`] are twice these.
    pub e: u8,
    /// Codes: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

/// Largest exponent of which every code is finite.
const TOP: i32 = 252;

impl BlockMXFP4 {
    /// Twice the value of each code.
    pub const VALUES: [i8; 16] = e2m1::VALUES;

    /// 2^(e - 128): the factor of [`BlockMXFP4::VALUES`]. The smallest two exponents give subnormal numbers; 255, which
    /// OCP calls NaN, is read as a power of two like all others.
    #[inline(always)]
    pub fn half_scale(e: u8) -> f32 {
        let e = u32::from(e);
        f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
    }

    fn with_exponent(x: &[f32; 32], e: u8) -> Self {
        let d = Self::half_scale(e);
        BlockMXFP4 { e, qs: pack_nibbles::<16, 16>(&x.map(|v| e2m1::code(v, d))) }
    }
}

impl BlockFormat for BlockMXFP4 {
    const DTYPE: DType = DType::MXFP4;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, codes) = (Self::half_scale(self.e), nibbles::<16, 32>(&self.qs));
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * e2m1::VALUES_F32[usize::from(q)]);
    }

    /// The exponent of OCP's rule, floor(log2(largest)) - 2, under which values up to a third too large are clipped; with
    /// importance, the better one of it and the next.
    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let largest = largest(x);
        if largest == 0.0 {
            return Self::zeroed();
        }
        // Rounded to float32 before the floor, as the reference does: right below a power of two that is the next one.
        let log2 = f64::from(largest).log2() as f32;
        let e = (log2.floor() as i32 + 125).clamp(0, TOP) as u8;
        let Some(block) = importance.and_then(|_| Normal::new(x, importance)) else {
            return Self::with_exponent(x, e);
        };
        let error = |e: u8| e2m1::error(&block.x, Some(&block.w), Self::half_scale(e) * (1.0 / block.unit));
        let next = (i32::from(e) + 1).min(TOP) as u8;
        Self::with_exponent(x, if error(next) < error(e) { next } else { e })
    }
}
