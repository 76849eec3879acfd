use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{crumbs, pack_crumbs, pack_planes, planes},
    search::{Integers, ScaledBlock},
};

/// 3 bit; 16 sub-blocks of 16, each with a signed 6-bit scale: `x = d * scale * (q - 4)`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3_K {
    /// Highest bit of the codes: bit `j` of byte `i` belongs to element `32 j + i`.
    pub hmask: [u8; 32],
    /// Lower two bits of the codes: in each half, byte `i` of 32 holds elements `i`, `i + 32`, `i + 64` and `i + 96`, from its
    /// lowest bits up.
    pub qs: [u8; 64],
    /// Scales, packed: see [`BlockQ3_K::scales`].
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: F16Le,
}

impl BlockQ3_K {
    /// Scales -32 to 31 of the sub-blocks. Stored is the scale plus 32: its lower nibble for scale `j` in byte `j % 8` (low half
    /// of the byte for the first eight), its upper two bits in byte `8 + j % 4` at bit `2 (j / 4)`.
    #[inline]
    pub fn scales(&self) -> [i8; 16] {
        std::array::from_fn(|j| {
            let low = self.scales[j % 8] >> (4 * (j / 8)) & 15;
            let high = self.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    fn pack_scales(scales: &[i8; 16]) -> [u8; 12] {
        let mut packed = [0; 12];
        for (j, scale) in scales.iter().enumerate() {
            let biased = (scale + 32) as u8;
            packed[j % 8] |= (biased & 15) << (4 * (j / 8));
            packed[8 + j % 4] |= biased >> 4 << (2 * (j / 4));
        }
        packed
    }
}

impl BlockFormat for BlockQ3_K {
    const DTYPE: DType = DType::Q3_K;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, scales) = (self.d.to_f32(), self.scales());
        let (low, high) = (crumbs(&self.qs), planes(&self.hmask));
        for (j, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = d * f32::from(scales[j]);
            let codes = low[16 * j..][..16].iter().zip(&high[16 * j..][..16]);
            out.iter_mut().zip(codes).for_each(|(o, (l, h))| *o = scale * f32::from((l | h << 2) as i8 - 4));
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let Some(b) = ScaledBlock::<16>::search::<16, Integers<-4, 3>>(x, importance, -32, 31) else {
            return Self::zeroed();
        };
        let codes = b.levels.map(|v| (v + 4.0) as u8);
        BlockQ3_K {
            hmask: pack_planes(&codes.map(|q| q >> 2)),
            qs: pack_crumbs(&codes),
            scales: Self::pack_scales(&b.scales),
            d: b.d,
        }
    }
}
