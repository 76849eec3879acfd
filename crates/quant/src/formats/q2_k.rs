use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{crumbs, pack_crumbs},
    search::AffineBlock,
};

/// 2 bit; 16 sub-blocks of 16, each with a 4-bit scale and minimum: `x = d * scale * q - dmin * min`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_K {
    /// One byte per sub-block: scale in the low nibble, minimum in the high one.
    pub scales: [u8; 16],
    /// Codes 0 to 3: in each half, byte `i` of 32 holds elements `i`, `i + 32`, `i + 64` and `i + 96`, from its lowest
    /// bits up.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
}

impl BlockFormat for BlockQ2_K {
    const DTYPE: DType = DType::Q2_K;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin, codes) = (self.d.to_f32(), self.dmin.to_f32(), crumbs(&self.qs));
        let sub_blocks = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
        for ((out, codes), byte) in sub_blocks.zip(self.scales) {
            let (scale, min) = (d * f32::from(byte & 15), dmin * f32::from(byte >> 4));
            out.iter_mut().zip(codes).for_each(|(o, q)| *o = scale * f32::from(*q) - min);
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        AffineBlock::<16>::search::<16>(x, importance, 3, 15).map_or(Self::zeroed(), |b| BlockQ2_K {
            scales: std::array::from_fn(|j| b.scales[j] | b.mins[j] << 4),
            qs: pack_crumbs(&b.codes),
            d: b.d,
            dmin: b.dmin,
        })
    }
}
