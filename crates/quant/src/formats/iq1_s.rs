use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::grids;
use crate::{
    BlockFormat, F16Le, U16Le,
    search::{Codebook, SHIFT, Shifts},
};

/// 1.56 bit; 8 groups of 32, each of four ternary points of eight: `x = d * (2 scale + 1) * (point + shift)`, with a shift of
/// 1/8 up or down.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ1_S {
    /// Scale of the scales.
    pub d: F16Le,
    /// Lower eight bits of the indices into [`grids::IQ1`], one per eight elements.
    pub qs: [u8; 32],
    /// One word per group, from the lowest bit: the upper three bits of four indices, three bits of scale, and a bit that is set
    /// for a shift down.
    pub qh: [U16Le; 8],
}

impl BlockFormat for BlockIQ1_S {
    const DTYPE: DType = DType::IQ1_S;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = self.qh[k / 4].get();
            let scale = d * f32::from(2 * (word >> 12 & 7) + 1);
            let shift = if word & 0x8000 == 0 { SHIFT } else { -SHIFT };
            let high = word >> (3 * (k % 4)) & 7;
            let point = &grids::IQ1[usize::from(u16::from(self.qs[k]) | high << 8)];
            out.iter_mut().zip(point).for_each(|(o, p)| *o = scale * (f32::from(*p) + shift));
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Shifts> = LazyLock::new(|| Shifts {
            codebook: Codebook::new(&grids::IQ1, &grids::IQ1_LEVELS),
            together: 4,
        });
        let Some(b) = SEARCH.search::<32, 8>(x, importance) else { return Self::zeroed() };
        let word = |j: usize| {
            let points = &b.points[4 * j..][..4];
            let high = (0..4).fold(0, |bits, k| bits | points[k].index >> 8 << (3 * k));
            U16Le::new(high | u16::from(b.scales[j]) << 12 | u16::from(points[0].down) << 15)
        };
        BlockIQ1_S { d: b.d, qs: b.points.map(|p| p.index as u8), qh: std::array::from_fn(word) }
    }
}
