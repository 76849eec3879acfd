use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{BlockFormat, F16Le};

/// IEEE binary16, a block of one. Values beyond its range become infinities, NaN stays NaN.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockF16(
    /// The value.
    pub F16Le,
);

impl BlockFormat for BlockF16 {
    const DTYPE: DType = DType::F16;
    type Values = [f32; 1];

    #[inline(always)]
    fn decode(&self, [out]: &mut [f32; 1]) {
        *out = self.0.to_f32();
    }

    fn encode([x]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        BlockF16(F16Le::from_f32(*x))
    }
}
