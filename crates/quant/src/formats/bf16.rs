use bytemuck::{Pod, Zeroable};
use half::bf16;
use lamina_base::DType;

use crate::{BlockFormat, U16Le};

/// The upper half of a binary32, a block of one. Rounded to nearest, ties to even; NaN stays NaN.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockBF16(
    /// The upper 16 bits.
    pub U16Le,
);

impl BlockFormat for BlockBF16 {
    const DTYPE: DType = DType::BF16;
    type Values = [f32; 1];

    #[inline(always)]
    fn decode(&self, [out]: &mut [f32; 1]) {
        *out = f32::from_bits(u32::from(self.0.get()) << 16);
    }

    fn encode([x]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        BlockBF16(U16Le::new(bf16::from_f32(*x).to_bits()))
    }
}
