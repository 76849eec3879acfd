use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{bits, nibbles, pack_bits, pack_nibbles},
    search::MinimumAndSteps,
};

/// 5 bit, scale and minimum per 32: `x = d * q + m`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// Scale.
    pub d: F16Le,
    /// Minimum.
    pub m: F16Le,
    /// Highest bit of the codes: bit `i % 8` of byte `i / 8` belongs to element `i`.
    pub qh: [u8; 4],
    /// Lower four bits of the codes: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

impl BlockFormat for BlockQ5_1 {
    const DTYPE: DType = DType::Q5_1;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (low, high) = (nibbles::<16, 32>(&self.qs), bits::<32>(&self.qh));
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        for ((o, low), high) in out.iter_mut().zip(low).zip(high) {
            *o = d * f32::from(low | high << 4) + m;
        }
    }

    /// Thirty-one steps from the smallest value to the largest; with importance, the best of several roundings.
    #[inline]
    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let MinimumAndSteps { d, m, codes } = MinimumAndSteps::of(x, importance, 31);
        BlockQ5_1 { d, m, qh: pack_bits::<4>(&codes.map(|q| q >> 4)), qs: pack_nibbles::<16, 16>(&codes) }
    }
}
