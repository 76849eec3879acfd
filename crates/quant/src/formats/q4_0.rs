use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{nibbles, pack_nibbles},
    search::{Integers, Levels, Normal, extreme, fit_scale, inverse},
};

type Codes = Integers<-8, 7>;

/// 4 bit, one scale per 32: `x = d * (q - 8)`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: F16Le,
    /// Codes 0 to 15: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

impl BlockFormat for BlockQ4_0 {
    const DTYPE: DType = DType::Q4_0;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, codes) = (self.d.to_f32(), nibbles::<16, 32>(&self.qs));
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * f32::from(q as i8 - 8));
    }

    /// The value of the largest magnitude becomes -8 steps; with importance, the best of several roundings.
    #[inline]
    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        match importance {
            None => {
                let d = extreme(x) / -8.0;
                let per_step = inverse(d);
                Self::pack(F16Le::finite(d), x.map(|v| (v * per_step + 8.5) as u8))
            }
            Some(_) => Normal::new(x, importance).map_or(Self::zeroed(), |block| {
                let (d, step) = block.store(fit_scale::<32, Codes>(&block.x, &block.w));
                let per_step = inverse(step);
                Self::pack(d, block.x.map(|v| (Codes::nearest(v * per_step) + 8.0) as u8))
            }),
        }
    }
}

impl BlockQ4_0 {
    fn pack(d: F16Le, codes: [u8; 32]) -> Self {
        BlockQ4_0 { d, qs: pack_nibbles::<16, 16>(&codes.map(|q| q.min(15))) }
    }
}
