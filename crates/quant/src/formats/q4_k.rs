use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::k_scales;
use crate::{
    BlockFormat, F16Le,
    bits::{nibbles, pack_nibbles},
    search::AffineBlock,
};

/// 4 bit; 8 sub-blocks of 32, each with a 6-bit scale and minimum: `x = d * scale * q - dmin * min`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_K {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
    /// Scales and minimums, packed: see [`BlockQ4_K::scales_and_mins`].
    pub scales: [u8; 12],
    /// Codes 0 to 15: in each quarter, byte `i` of 32 holds element `i` in its low nibble and element `i + 32` in its high one.
    pub qs: [u8; 128],
}

impl BlockQ4_K {
    /// The 6-bit scales and minimums of the sub-blocks. Byte `j` of the first four holds scale `j` in its lower six bits, byte
    /// `4 + j` minimum `j`; byte `8 + j` holds the lower nibbles of scale (low) and minimum (high) `4 + j`, whose upper two
    /// bits are the upper two of bytes `j` and `4 + j`.
    #[inline]
    pub fn scales_and_mins(&self) -> ([u8; 8], [u8; 8]) {
        k_scales::unpack(&self.scales)
    }
}

impl BlockFormat for BlockQ4_K {
    const DTYPE: DType = DType::Q4_K;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin, codes) = (self.d.to_f32(), self.dmin.to_f32(), nibbles::<32, 256>(&self.qs));
        let (scales, mins) = self.scales_and_mins();
        let sub_blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for (j, (out, codes)) in sub_blocks.enumerate() {
            let (scale, min) = (d * f32::from(scales[j]), dmin * f32::from(mins[j]));
            out.iter_mut().zip(codes).for_each(|(o, q)| *o = scale * f32::from(*q) - min);
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        AffineBlock::<8>::search::<32>(x, importance, 15, 63).map_or(Self::zeroed(), |b| BlockQ4_K {
            d: b.d,
            dmin: b.dmin,
            scales: k_scales::pack(&b.scales, &b.mins),
            qs: pack_nibbles::<32, 128>(&b.codes),
        })
    }
}
