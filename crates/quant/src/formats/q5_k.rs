use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::k_scales;
use crate::{
    BlockFormat, F16Le,
    bits::{nibbles, pack_nibbles, pack_planes, planes},
    search::AffineBlock,
};

/// 5 bit; 8 sub-blocks of 32, each with a 6-bit scale and minimum: `x = d * scale * q - dmin * min`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_K {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
    /// Scales and minimums, packed as in [`super::BlockQ4_K`].
    pub scales: [u8; 12],
    /// Highest bit of the codes: bit `j` of byte `i` belongs to element `32 j + i`.
    pub qh: [u8; 32],
    /// Lower four bits of the codes: in each quarter, byte `i` of 32 holds element `i` in its low nibble and element `i + 32` in
    /// its high one.
    pub qs: [u8; 128],
}

impl BlockQ5_K {
    /// The 6-bit scales and minimums of the sub-blocks, packed as in [`super::BlockQ4_K::scales_and_mins`].
    #[inline]
    pub fn scales_and_mins(&self) -> ([u8; 8], [u8; 8]) {
        k_scales::unpack(&self.scales)
    }
}

impl BlockFormat for BlockQ5_K {
    const DTYPE: DType = DType::Q5_K;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let (low, high) = (nibbles::<32, 256>(&self.qs), planes(&self.qh));
        let (scales, mins) = self.scales_and_mins();
        for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (scale, min) = (d * f32::from(scales[j]), dmin * f32::from(mins[j]));
            let codes = low[32 * j..][..32].iter().zip(&high[32 * j..][..32]);
            out.iter_mut().zip(codes).for_each(|(o, (l, h))| *o = scale * f32::from(l | h << 4) - min);
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        AffineBlock::<8>::search::<32>(x, importance, 31, 63).map_or(Self::zeroed(), |b| BlockQ5_K {
            d: b.d,
            dmin: b.dmin,
            scales: k_scales::pack(&b.scales, &b.mins),
            qh: pack_planes(&b.codes.map(|q| q >> 4)),
            qs: pack_nibbles::<32, 128>(&b.codes),
        })
    }
}
