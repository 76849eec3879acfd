use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{nibbles, pack_nibbles},
    search::MinimumAndSteps,
};

/// 4 bit, scale and minimum per 32: `x = d * q + m`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// Scale.
    pub d: F16Le,
    /// Minimum.
    pub m: F16Le,
    /// Codes 0 to 15: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

impl BlockFormat for BlockQ4_1 {
    const DTYPE: DType = DType::Q4_1;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, m, codes) = (self.d.to_f32(), self.m.to_f32(), nibbles::<16, 32>(&self.qs));
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * f32::from(q) + m);
    }

    /// Fifteen steps from the smallest value to the largest; with importance, the best of several roundings.
    #[inline]
    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let MinimumAndSteps { d, m, codes } = MinimumAndSteps::of(x, importance, 15);
        BlockQ4_1 { d, m, qs: pack_nibbles::<16, 16>(&codes) }
    }
}
