use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::{
    grids,
    points::{self, ShiftedPoint, ShiftedPoints},
};
use crate::{
    BlockFormat, F16Le, U16Le,
    search::{Codebook, Shifts},
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

impl ShiftedPoints for BlockIQ1_S {
    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> ShiftedPoint {
        let word = self.qh[k / 4].get();
        let high = word >> (3 * (k % 4)) & 7;
        ShiftedPoint {
            scale: (word >> 12 & 7) as u8,
            point: &grids::IQ1[usize::from(u16::from(self.qs[k]) | high << 8)],
            down: word & 0x8000 != 0,
        }
    }
}

impl BlockFormat for BlockIQ1_S {
    const DTYPE: DType = DType::IQ1_S;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_shifted(self, out);
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
