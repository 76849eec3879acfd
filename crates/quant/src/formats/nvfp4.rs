use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::e2m1;
use crate::{
    BlockFormat,
    bits::{nibbles, pack_nibbles},
    plain,
    search::largest,
};

/// 64 floats of 4 bits (e2m1) with an 8-bit float scale (e4m3 without sign) per 16: `x = d / 2 * VALUES[q]`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNVFP4 {
    /// Scales of the sub-blocks; the highest bit is ignored, 0x7F means zero.
    pub d: [u8; 4],
    /// Codes: in each sub-block, byte `i` of 8 holds element `i` in its low nibble and element `i + 8` in its high one.
    pub qs: [u8; 32],
}

/// Largest scale, 448.
const TOP: u8 = 0x7E;

impl BlockNVFP4 {
    /// Twice the value of each code.
    pub const VALUES: [i8; 16] = e2m1::VALUES;

    /// Half of the scale `d`: the factor of [`BlockNVFP4::VALUES`].
    #[inline]
    pub fn half_scale(d: u8) -> f32 {
        match d {
            0x7F => 0.0,
            // With the sign bit the one pattern that e4m3 calls NaN reads as 480.
            0xFF => 240.0,
            _ => 0.5 * plain::e4m3(d & 0x7F),
        }
    }

    /// The scale with the smallest error: the one that maps the largest magnitude to the largest value, 6, or one of its
    /// neighbours. Those below clip it; those above reach the scale under which it was 4 or 3, so that what once was
    /// NVFP4 comes back as it was.
    fn best_scale(x: &[f32; 16], importance: Option<&[f32; 16]>) -> u8 {
        let wanted = largest(x) / 12.0;
        let plain = (0..TOP).find(|d| Self::half_scale(*d) >= wanted).unwrap_or(TOP);
        let mut best = (plain, f32::INFINITY);
        for d in plain.saturating_sub(5)..=(plain + 8).min(TOP) {
            let error = e2m1::error(x, importance, Self::half_scale(d));
            best = if error < best.1 { (d, error) } else { best };
        }
        best.0
    }
}

impl BlockFormat for BlockNVFP4 {
    const DTYPE: DType = DType::NVFP4;
    type Values = [f32; 64];

    #[inline]
    fn decode(&self, out: &mut [f32; 64]) {
        let codes = nibbles::<8, 64>(&self.qs);
        let sub_blocks = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
        for ((out, codes), d) in sub_blocks.zip(self.d) {
            let d = Self::half_scale(d);
            out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * e2m1::VALUES_F32[usize::from(*q)]);
        }
    }

    fn encode(x: &[f32; 64], importance: Option<&[f32; 64]>) -> Self {
        let (xs, mut d, mut codes) = (x.as_chunks::<16>().0, [0; 4], [0; 64]);
        for (j, codes) in codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            d[j] = Self::best_scale(&xs[j], importance.map(|w| &w.as_chunks().0[j]));
            let scale = Self::half_scale(d[j]);
            codes.iter_mut().zip(&xs[j]).for_each(|(c, x)| *c = e2m1::code(*x, scale));
        }
        BlockNVFP4 { d, qs: pack_nibbles::<8, 32>(&codes) }
    }
}
