use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{crumbs, nibbles, pack_crumbs, pack_nibbles},
    search::{Integers, ScaledBlock},
};

/// 6 bit; 16 sub-blocks of 16, each with a signed 8-bit scale: `x = d * scale * (q - 32)`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6_K {
    /// Lower four bits of the codes: in each half, byte `i` of 64 holds element `i` in its low nibble and element `i + 64` in its
    /// high one.
    pub ql: [u8; 128],
    /// Upper two bits of the codes: in each half, byte `i` of 32 holds elements `i`, `i + 32`, `i + 64` and `i + 96`, from its
    /// lowest bits up.
    pub qh: [u8; 64],
    /// Scales of the sub-blocks.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: F16Le,
}

impl BlockFormat for BlockQ6_K {
    const DTYPE: DType = DType::Q6_K;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let (low, high) = (nibbles::<64, 256>(&self.ql), crumbs(&self.qh));
        for (j, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = d * f32::from(self.scales[j]);
            let codes = low[16 * j..][..16].iter().zip(&high[16 * j..][..16]);
            out.iter_mut().zip(codes).for_each(|(o, (l, h))| *o = scale * f32::from((l | h << 4) as i8 - 32));
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let Some(b) = ScaledBlock::<16>::search::<16, Integers<-32, 31>>(x, importance, -128, 127) else {
            return Self::zeroed();
        };
        let codes = b.levels.map(|v| (v + 32.0) as u8);
        BlockQ6_K {
            ql: pack_nibbles::<64, 128>(&codes),
            qh: pack_crumbs(&codes.map(|q| q >> 4)),
            scales: b.scales,
            d: b.d,
        }
    }
}
