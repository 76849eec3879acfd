use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{bits, nibbles, pack_bits, pack_nibbles},
    search::{Integers, Levels, Normal, extreme, fit_scale, inverse},
};

type Codes = Integers<-16, 15>;

/// 5 bit, one scale per 32: `x = d * (q - 16)`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// Scale.
    pub d: F16Le,
    /// Highest bit of the codes: bit `i % 8` of byte `i / 8` belongs to element `i`.
    pub qh: [u8; 4],
    /// Lower four bits of the codes: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

impl BlockFormat for BlockQ5_0 {
    const DTYPE: DType = DType::Q5_0;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (low, high) = (nibbles::<16, 32>(&self.qs), bits::<32>(&self.qh));
        let d = self.d.to_f32();
        for ((o, low), high) in out.iter_mut().zip(low).zip(high) {
            *o = d * f32::from((low | high << 4) as i8 - 16);
        }
    }

    /// The value of the largest magnitude becomes -16 steps; with importance, the best of several roundings.
    #[inline]
    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        match importance {
            None => {
                let d = extreme(x) / -16.0;
                let per_step = inverse(d);
                Self::pack(F16Le::finite(d), x.map(|v| (v * per_step + 16.5) as u8))
            }
            Some(_) => Normal::new(x, importance).map_or(Self::zeroed(), |block| {
                let (d, step) = block.store(fit_scale::<32, Codes>(&block.x, &block.w));
                let per_step = inverse(step);
                Self::pack(d, block.x.map(|v| (Codes::nearest(v * per_step) + 16.0) as u8))
            }),
        }
    }
}

impl BlockQ5_0 {
    fn pack(d: F16Le, codes: [u8; 32]) -> Self {
        let codes = codes.map(|q| q.min(31));
        BlockQ5_0 { d, qh: pack_bits::<4>(&codes.map(|q| q >> 4)), qs: pack_nibbles::<16, 16>(&codes) }
    }
}
