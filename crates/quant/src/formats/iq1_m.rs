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

/// 1.75 bit; 16 groups of 16, each of two ternary points of eight: `x = d * (2 scale + 1) * (point + shift)`, with a shift of
/// 1/8 up or down for each point.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ1_M {
    /// Lower eight bits of the indices into [`grids::IQ1`], one per eight elements.
    pub qs: [u8; 32],
    /// One nibble per point, low ones first: the upper three bits of its index, and a bit that is set for a shift down.
    pub qh: [u8; 16],
    /// Each word holds, from the lowest bit, the 3-bit scales of four groups and a nibble of the half-precision scale of the
    /// scales, the lowest nibble first.
    pub scales: [U16Le; 4],
}

impl ShiftedPoints for BlockIQ1_M {
    /// Put together from its four nibbles.
    #[inline]
    fn d(&self) -> F16Le {
        let nibbles = self.scales.iter().enumerate();
        F16Le::from_bits(nibbles.fold(0, |bits, (i, word)| bits | word.get() >> 12 << (4 * i)))
    }

    #[inline(always)]
    fn point(&self, k: usize) -> ShiftedPoint {
        let nibble = self.qh[k / 2] >> (4 * (k % 2));
        ShiftedPoint {
            scale: (self.scales[k / 8].get() >> (3 * (k / 2 % 4)) & 7) as u8,
            point: &grids::IQ1[usize::from(self.qs[k]) | usize::from(nibble & 7) << 8],
            down: nibble & 8 != 0,
        }
    }
}

impl BlockFormat for BlockIQ1_M {
    const DTYPE: DType = DType::IQ1_M;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_shifted(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Shifts> = LazyLock::new(|| Shifts {
            codebook: Codebook::new(&grids::IQ1, &grids::IQ1_LEVELS),
            together: 1,
        });
        let Some(b) = SEARCH.search::<16, 16>(x, importance) else { return Self::zeroed() };
        let nibble = |k: usize| (b.points[k].index >> 8) as u8 | u8::from(b.points[k].down) << 3;
        let word = |i: usize| {
            let scales = (0..4).fold(0, |bits, k| bits | u16::from(b.scales[4 * i + k]) << (3 * k));
            U16Le::new(scales | (b.d.to_bits() >> (4 * i) & 15) << 12)
        };
        BlockIQ1_M {
            qs: b.points.map(|p| p.index as u8),
            qh: std::array::from_fn(|i| nibble(2 * i) | nibble(2 * i + 1) << 4),
            scales: std::array::from_fn(word),
        }
    }
}
