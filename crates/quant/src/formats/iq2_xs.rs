use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::{
    grids::{self, even_signs},
    points::{self, SignedPoint, SignedPoints},
};
use crate::{
    BlockFormat, F16Le, U16Le,
    search::{Codebook, MagnitudeBlock, Magnitudes, Signs},
};

/// 2.31 bit; 16 groups of 16, each of two points of eight: `x = d * (2 scale + 1) / 8 * sign * point`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ2_XS {
    /// Scale of the scales.
    pub d: F16Le,
    /// One word per eight elements: nine bits of index into [`grids::IQ2_XS`], then seven bits for [`even_signs`].
    pub qs: [U16Le; 32],
    /// Scales 0 to 15: byte `j` holds that of group `2 j` in its low nibble and that of group `2 j + 1` in its high one.
    pub scales: [u8; 8],
}

impl SignedPoints for BlockIQ2_XS {
    const UNIT: f32 = 0.125;

    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> SignedPoint {
        let word = self.qs[k].get();
        SignedPoint {
            scale: self.scales[k / 4] >> (4 * (k / 2 % 2)) & 15,
            magnitudes: grids::IQ2_XS[usize::from(word & 511)],
            signs: even_signs((word >> 9) as u8),
        }
    }
}

impl BlockFormat for BlockIQ2_XS {
    const DTYPE: DType = DType::IQ2_XS;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_signed(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<8>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ2_XS, &grids::IQ2_LEVELS),
            unit: BlockIQ2_XS::UNIT,
            signs: Signs::Even,
        });
        let Some(b) = SEARCH.search::<16, 16, 32>(x, importance) else { return Self::zeroed() };
        let MagnitudeBlock { d, scales, points, signs } = b;
        BlockIQ2_XS {
            d,
            qs: std::array::from_fn(|k| U16Le::new(points[k] | u16::from(signs[k] & 127) << 9)),
            scales: std::array::from_fn(|j| scales[2 * j] | scales[2 * j + 1] << 4),
        }
    }
}
