use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::{
    grids,
    points::{self, SignedPoint, SignedPoints},
};
use crate::{
    BlockFormat, F16Le,
    bits::pack_bits,
    search::{Codebook, MagnitudeBlock, Magnitudes, Signs},
};

/// 3.44 bit; 8 groups of 32, each of eight points of four: `x = d * (2 scale + 1) * sign * point`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ3_S {
    /// Scale of the scales.
    pub d: F16Le,
    /// Lower eight bits of the indices into [`grids::IQ3_S`], one per four elements.
    pub qs: [u8; 64],
    /// Highest bit of the indices: bit `k % 8` of byte `k / 8` belongs to point `k`.
    pub qh: [u8; 8],
    /// Signs: a set bit `i` of byte `k` makes element `8 k + i` negative.
    pub signs: [u8; 32],
    /// Scales 0 to 15: byte `j` holds that of group `2 j` in its low nibble and that of group `2 j + 1` in its high one.
    pub scales: [u8; 4],
}

impl SignedPoints for BlockIQ3_S {
    const UNIT: f32 = 1.0;

    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> SignedPoint {
        let high = self.qh[k / 4] >> (2 * (k % 4));
        let index = |i: usize| usize::from(self.qs[2 * k + i]) | usize::from(high >> i & 1) << 8;
        SignedPoint {
            scale: self.scales[k / 8] >> (4 * (k / 4 % 2)) & 15,
            magnitudes: grids::joined(&grids::IQ3_S, [index(0), index(1)]),
            signs: self.signs[k],
        }
    }
}

impl BlockFormat for BlockIQ3_S {
    const DTYPE: DType = DType::IQ3_S;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_signed(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<4>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ3_S, &grids::IQ3_S_LEVELS),
            unit: BlockIQ3_S::UNIT,
            signs: Signs::Free,
        });
        let Some(b) = SEARCH.search::<32, 8, 64>(x, importance) else { return Self::zeroed() };
        let MagnitudeBlock { d, scales, points, signs } = b;
        BlockIQ3_S {
            d,
            qs: points.map(|p| p as u8),
            qh: pack_bits(&points.map(|p| (p >> 8) as u8)),
            signs,
            scales: std::array::from_fn(|j| scales[2 * j] | scales[2 * j + 1] << 4),
        }
    }
}
