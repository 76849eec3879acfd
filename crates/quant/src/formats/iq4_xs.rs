use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::iq4_nl::{Unequal, VALUES_F32};
use crate::{
    BlockFormat, F16Le, U16Le,
    bits::{nibbles, pack_nibbles},
    search::ScaledBlock,
};

/// 4 bit with unequal steps; 8 sub-blocks of 32, each with a signed 6-bit scale: `x = d * scale * VALUES[q]` with the values of
/// [`super::BlockIQ4_NL`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ4_XS {
    /// Scale of the scales.
    pub d: F16Le,
    /// Upper two bits of the scales plus 32: bits `2 j` and `2 j + 1` belong to sub-block `j`.
    pub scales_h: U16Le,
    /// Lower four bits of the scales plus 32: byte `j` holds sub-block `2 j` in its low nibble and `2 j + 1` in its high one.
    pub scales_l: [u8; 4],
    /// Codes 0 to 15: in each sub-block, byte `i` of 16 holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 128],
}

impl BlockIQ4_XS {
    /// Scales -32 to 31 of the sub-blocks.
    #[inline]
    pub fn scales(&self) -> [i8; 8] {
        std::array::from_fn(|j| {
            let low = self.scales_l[j / 2] >> (4 * (j % 2)) & 15;
            let high = (self.scales_h.get() >> (2 * j) & 3) as u8;
            (low | high << 4) as i8 - 32
        })
    }
}

impl BlockFormat for BlockIQ4_XS {
    const DTYPE: DType = DType::IQ4_XS;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, codes) = (self.d.to_f32(), nibbles::<16, 256>(&self.qs));
        let sub_blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for ((out, codes), scale) in sub_blocks.zip(self.scales()) {
            let scale = d * f32::from(scale);
            out.iter_mut().zip(codes).for_each(|(o, q)| *o = scale * VALUES_F32[usize::from(*q)]);
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let Some(b) = ScaledBlock::<8>::search::<32, Unequal>(x, importance, -32, 31) else {
            return Self::zeroed();
        };
        let biased = b.scales.map(|s| (s + 32) as u8);
        let high = biased.iter().enumerate().fold(0, |bits, (j, s)| bits | u16::from(s >> 4) << (2 * j));
        BlockIQ4_XS {
            d: b.d,
            scales_h: U16Le::new(high),
            scales_l: std::array::from_fn(|j| biased[2 * j] & 15 | biased[2 * j + 1] << 4),
            qs: pack_nibbles::<16, 128>(&b.levels.map(Unequal::code)),
        }
    }
}
