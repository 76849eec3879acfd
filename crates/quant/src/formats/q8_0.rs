use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    search::{inverse, largest, round_half_away},
};

/// 8 bit, one scale per 32: `x = d * q`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: F16Le,
    /// Codes -127 to 127.
    pub qs: [i8; 32],
}

impl BlockFormat for BlockQ8_0 {
    const DTYPE: DType = DType::Q8_0;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        out.iter_mut().zip(self.qs).for_each(|(o, q)| *o = d * f32::from(q));
    }

    /// The largest magnitude becomes 127 steps. Steps this fine leave nothing for importance to decide.
    #[inline]
    fn encode(x: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let d = largest(x) / 127.0;
        let per_step = inverse(d);
        BlockQ8_0 { d: F16Le::finite(d), qs: x.map(|v| round_half_away(v * per_step) as i8) }
    }
}
