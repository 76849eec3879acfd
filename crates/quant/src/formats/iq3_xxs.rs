use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::grids::{self, even_signs};
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

impl BlockFormat for BlockIQ3_XXS {
    const DTYPE: DType = DType::IQ3_XXS;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (k, (pair, out)) in self.qs.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<8>().0).enumerate() {
            let bits = self.signs_and_scale[k / 4].get();
            let scale = d * (0.5 + (bits >> 28) as f32) * 0.5;
            let point = grids::joined(&grids::IQ3_XXS, pair.map(usize::from));
            grids::signed(scale, &point, even_signs((bits >> (7 * (k % 4))) as u8), out);
        }
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        static SEARCH: LazyLock<Magnitudes<4>> = LazyLock::new(|| Magnitudes {
            codebook: Codebook::new(&grids::IQ3_XXS, &grids::IQ3_XXS_LEVELS),
            unit: 0.25,
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
