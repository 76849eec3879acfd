use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::ternary;
use crate::{
    BlockFormat, F16Le,
    bits::{crumbs, pack_crumbs},
};

/// Ternary in 2 bits, one scale per 256: `x = d * (q - 1)`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTQ2_0 {
    /// Codes 0 to 2 (3 decodes as 2): in each half, byte `i` of 32 holds elements `i`, `i + 32`, `i + 64` and `i + 96`, from
    /// its lowest bits up.
    pub qs: [u8; 64],
    /// Scale.
    pub d: F16Le,
}

impl BlockTQ2_0 {
    /// Codes 0 to 3.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        crumbs(&self.qs)
    }
}

impl BlockFormat for BlockTQ2_0 {
    const DTYPE: DType = DType::TQ2_0;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, codes) = (self.d.to_f32(), self.codes());
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * f32::from(q as i8 - 1));
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let (d, codes) = ternary::encode(x, importance);
        BlockTQ2_0 { qs: pack_crumbs(&codes), d }
    }
}
