use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::{
    grids,
    points::{self, SignedPoint, SignedPoints},
};
use crate::{
    BlockFormat, F16Le,
    search::{Codebook, MagnitudeBlock, Magnitudes, Signs},
};

/// 2.56 bit; 16 groups of 16, each of two points of eight: `x = d * (2 scale + 1) / 8 * sign * point`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ2_S {
    /// Scale of the scales.
    pub d: F16Le,
    /// Lower eight bits of the indices into [`grids::IQ2_S`], one per eight elements.
    pub qs: [u8; 32],
    /// Signs: a set bit `i` of byte `k` makes element `8 k + i` negative.
    pub signs: [u8; 32],
    /// Upper two bits of the indices: byte `j` holds those of points `4 j` to `4 j + 3`, from its lowest bits up.
    pub qh: [u8; 8],
    /// Scales 0 to 15: byte `j` holds that of group `2 j` in its low nibble and that of group `2 j + 1` in its high one.
    pub scales: [u8; 8],
}

impl SignedPoints for BlockIQ2_S {
    const UNIT: f32 = 0.125;

    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> SignedPoint {
        let high = self.qh[k / 4] >> (2 * (k % 4)) & 3;
        SignedPoint {
            scale: self.scales[k / 4] >> (4 * (k / 2 % 2)) & 15,
            magnitudes: grids::IQ2_S[usize::from(self.qs[k]) | usize::from(high) << 8],
            signs: self.signs[k],
        }
    }
}

impl BlockFormat for BlockIQ2_S {
    const DTYPE: DType = DType::IQ2_S;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_signed(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<8>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ2_S, &grids::IQ2_LEVELS),
            unit: BlockIQ2_S::UNIT,
            signs: Signs::Free,
        });
        let Some(b) = SEARCH.search::<16, 16, 32>(x, importance) else { return Self::zeroed() };
        let MagnitudeBlock { d, scales, points, signs } = b;
        let high = |j: usize| (0..4).fold(0, |bits, k| bits | ((points[4 * j + k] >> 8) as u8) << (2 * k));
        BlockIQ2_S {
            d,
            qs: points.map(|p| p as u8),
            signs,
            qh: std::array::from_fn(high),
            scales: std::array::from_fn(|j| scales[2 * j] | scales[2 * j + 1] << 4),
        }
    }
}
