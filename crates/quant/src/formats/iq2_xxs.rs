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

/// 2.06 bit; 8 groups of 32, each of four points of eight: `x = d * (2 scale + 1) / 8 * sign * point`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ2_XXS {
    /// Scale of the scales.
    pub d: F16Le,
    /// The groups.
    pub groups: [GroupIQ2_XXS; 8],
}

/// 32 elements of [`BlockIQ2_XXS`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct GroupIQ2_XXS {
    /// Indices into [`grids::IQ2_XXS`], one per eight elements.
    pub points: [u8; 4],
    /// From the lowest bit: four times seven bits for [`even_signs`], then four bits of scale.
    pub signs_and_scale: U32Le,
}

impl SignedPoints for BlockIQ2_XXS {
    const UNIT: f32 = 0.125;

    #[inline(always)]
    fn d(&self) -> F16Le {
        self.d
    }

    #[inline(always)]
    fn point(&self, k: usize) -> SignedPoint {
        let group = &self.groups[k / 4];
        let bits = group.signs_and_scale.get();
        SignedPoint {
            scale: (bits >> 28) as u8,
            magnitudes: grids::IQ2_XXS[usize::from(group.points[k % 4])],
            signs: even_signs((bits >> (7 * (k % 4))) as u8),
        }
    }
}

impl BlockFormat for BlockIQ2_XXS {
    const DTYPE: DType = DType::IQ2_XXS;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        points::decode_signed(self, out);
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<8>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ2_XXS, &grids::IQ2_LEVELS),
            unit: BlockIQ2_XXS::UNIT,
            signs: Signs::Even,
        });
        let Some(b) = SEARCH.search::<32, 8, 32>(x, importance) else { return Self::zeroed() };
        let MagnitudeBlock { d, scales, points, signs } = b;
        let group = |j: usize| {
            let signs = (0..4).fold(0, |bits, k| bits | u32::from(signs[4 * j + k] & 127) << (7 * k));
            GroupIQ2_XXS {
                points: std::array::from_fn(|k| points[4 * j + k] as u8),
                signs_and_scale: U32Le::new(signs | u32::from(scales[j]) << 28),
            }
        };
        BlockIQ2_XXS { d, groups: std::array::from_fn(group) }
    }
}
