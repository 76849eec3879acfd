use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::BlockFormat;

/// IEEE binary32, a block of one.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockF32(
    /// Little-endian bytes.
    pub [u8; 4],
);

impl BlockFormat for BlockF32 {
    const DTYPE: DType = DType::F32;
    type Values = [f32; 1];

    #[inline(always)]
    fn decode(&self, [out]: &mut [f32; 1]) {
        *out = f32::from_le_bytes(self.0);
    }

    fn encode([x]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        BlockF32(x.to_le_bytes())
    }
}
