use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::{
    grids::{self, even_signs},
    points::{self, SignedPoint, SignedPoints},
};
use crate::{
    BlockFormat, F16Le, U32Le,
    search::{Codebook, MagnitudeBlock, Magnitudes, Signs},
};

/// 3.06 bit; 8 groups of 32, each of eight points of four: `x = d * (2 scale + 1) / 4 * sign * point`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ3_XXS {
    /// Scale of the scales.
    pub d: F16Le,
    /// Indices into [`grids::IQ3_XXS`], one per four elements.
    pub qs: [u8; 64],
    /// One word per group, from the lowest bit: four times seven bits for [`even_signs`] of eight elements each, then four bits
    /// of scale.
    pub signs_and_scale: [U32Le; 8],
}

impl SignedPoints for BlockIQ3_XXS {
    const UNIT: f32 = 0.25;

    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> SignedPoint {
        let bits = self.signs_and_scale[k / 4].get();
        let pair = [self.qs[2 * k], self.qs[2 * k + 1]];
        SignedPoint {
            scale: (bits >> 28) as u8,
            magnitudes: grids::joined(&grids::IQ3_XXS, pair.map(usize::from)),
            signs: even_signs((bits >> (7 * (k % 4))) as u8),
        }
    }
}

impl BlockFormat for BlockIQ3_XXS {
    const DTYPE: DType = DType::IQ3_XXS;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_signed(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<4>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ3_XXS, &grids::IQ3_XXS_LEVELS),
            unit: BlockIQ3_XXS::UNIT,
            signs: Signs::Even,
        });
        let Some(b) = SEARCH.search::<32, 8, 64>(x, importance) else { return Self::zeroed() };
        let MagnitudeBlock { d, scales, points, signs } = b;
        let word = |j: usize| {
            let signs = (0..4).fold(0, |bits, k| bits | u32::from(signs[4 * j + k] & 127) << (7 * k));
            U32Le::new(signs | u32::from(scales[j]) << 28)
        };
        BlockIQ3_XXS { d, qs: points.map(|p| p as u8), signs_and_scale: std::array::from_fn(word) }
    }
}
