//! Attention on tensor cores (`kernels/attend_tensor.h`, `kernels/attend_latent.h`): which pages have it, and by which kernels.

use crate::{device::ProductUnits, kv::PagePlan};
use lamina_plan::KvType;

/// Rows of an operand of tensor cores: query heads of a key head, and rows beside one another.
pub(crate) const TILE: usize = 16;

/// Numbers of a head that the kernels have room for, with one tile and with two.
const MOST: usize = 256;
const MOST_OF_TWO: usize = 128;

/// Numbers of a latent, and of a latent and its rotary key, that the kernels have room for.
const MOST_OF_LATENT: usize = 512;
const MOST_OF_BOTH: usize = 576;

/// Kernels that attend to pages of some types. Both give the same bits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TensorPages {
    /// For one tile of rows in turn, and for units side by side.
    pub one: &'static str,
    /// For two tiles of rows in turn, with heads of up to 128 numbers.
    two: &'static str,
    /// They take queries of rotary keys beside those of latents.
    pub latent: bool,
    /// They multiply bfloat16, and float16 otherwise.
    bf16: bool,
}

/// The kernels of pages of heads.
const fn heads(one: &'static str, two: &'static str) -> TensorPages {
    TensorPages { one, two, latent: false, bf16: false }
}

/// The kernel of pages of latents.
const fn latents(one: &'static str) -> TensorPages {
    TensorPages { one, two: one, latent: true, bf16: false }
}

const F16: TensorPages = heads("attend_one_f16", "attend_two_f16");
const BF16: TensorPages = TensorPages { bf16: true, ..heads("attend_one_bf16", "attend_one_bf16") };
const PACKED: TensorPages = heads("attend_one_packed", "attend_one_packed");
const LATENT_F16: TensorPages = latents("attend_latent_f16");
const LATENT_BF16: TensorPages = TensorPages { bf16: true, ..latents("attend_latent_bf16") };
const LATENT_F8: TensorPages = latents("attend_latent_f8");

impl TensorPages {
    /// How tensor cores attend to `pages` of heads, if they do. The number of rows has no say: a row has the same bits in all
    /// steps.
    pub fn of(pages: &PagePlan) -> Option<&'static TensorPages> {
        let width = pages.key.width as usize;
        let fits = width.is_multiple_of(TILE) && (TILE..=MOST).contains(&width);
        if !fits || pages.value.width != pages.key.width {
            return None;
        }
        match (pages.types.k, pages.types.v) {
            (KvType::F16, KvType::F16) => Some(&F16),
            (KvType::BF16, KvType::BF16) => Some(&BF16),
            // Numbers of float32, and of bfloat16 beside other types, are no one or two float16.
            (KvType::F32 | KvType::BF16, _) | (_, KvType::F32 | KvType::BF16) => None,
            _ => Some(&PACKED),
        }
    }

    /// How tensor cores attend to `pages` of latents, if they do.
    pub fn of_latents(pages: &PagePlan) -> Option<&'static TensorPages> {
        let (latent, rope) = (pages.key.width as usize, pages.rope.width as usize);
        let whole = latent.is_multiple_of(TILE) && rope.is_multiple_of(TILE);
        if !whole || !(TILE..=MOST_OF_LATENT).contains(&latent) || latent + rope > MOST_OF_BOTH {
            return None;
        }
        match pages.types.k {
            KvType::F16 => Some(&LATENT_F16),
            KvType::BF16 => Some(&LATENT_BF16),
            KvType::F8 => Some(&LATENT_F8),
            KvType::F32 | KvType::Q8_0 | KvType::Q4_0 | KvType::Q4_1 => None,
        }
    }

    /// True where the tensor cores of `units` run them.
    pub fn runs_on(&self, units: ProductUnits) -> bool {
        match units {
            ProductUnits::Fma => false,
            ProductUnits::TensorCores => true,
            ProductUnits::Float16Cores => !self.bf16,
        }
    }

    /// The kernel for units in turn, over heads of `width` numbers.
    pub fn in_turn(&self, width: usize) -> &'static str {
        if width <= MOST_OF_TWO { self.two } else { self.one }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tensor_kernels;
    use lamina_plan::{KvTypes, LayerState};

    fn pages(dim: usize, k: KvType, v: KvType) -> PagePlan {
        let layer = LayerState::Paged { group: 0, kv_heads: 2, dim };
        PagePlan::of(&layer, KvTypes { k, v }).expect("a paged layer has pages")
    }

    #[test]
    fn widths_and_types_decide() {
        for dim in [16, 64, 80, 96, 112, 128, 192, 256] {
            assert_eq!(TensorPages::of(&pages(dim, KvType::F16, KvType::F16)), Some(&F16), "{dim}");
        }
        for dim in [8, 24, 100, 272, 512] {
            assert_eq!(TensorPages::of(&pages(dim, KvType::F16, KvType::F16)), None, "{dim}");
        }
        assert_eq!(TensorPages::of(&pages(64, KvType::F16, KvType::Q4_0)), Some(&PACKED));
        assert_eq!(TensorPages::of(&pages(64, KvType::F16, KvType::BF16)), None);
        assert_eq!(TensorPages::of(&pages(64, KvType::Q8_0, KvType::F32)), None);
        for (name, kv_type) in KvType::ALL {
            let found = TensorPages::of(&pages(64, *kv_type, *kv_type));
            assert_eq!(found.is_none(), *kv_type == KvType::F32, "{name}");
        }
    }

    #[test]
    fn widths_and_types_of_latents_decide() {
        let latents = |rank, rope, kv_type: KvType| {
            let layer = LayerState::Latent { group: 0, rank, rope };
            TensorPages::of_latents(&PagePlan::of(&layer, kv_type.into()).expect("a paged layer has pages"))
        };
        for (rank, rope) in [(512, 64), (256, 32), (64, 16), (16, 560), (512, 0)] {
            assert_eq!(latents(rank, rope, KvType::F16), Some(&LATENT_F16), "{rank} {rope}");
        }
        for (rank, rope) in [(40, 16), (64, 8), (528, 16), (512, 80), (8, 16)] {
            assert_eq!(latents(rank, rope, KvType::F16), None, "{rank} {rope}");
        }
        let known = [KvType::F16, KvType::BF16, KvType::F8];
        for (name, kv_type) in KvType::ALL {
            assert_eq!(latents(512, 64, *kv_type).is_some(), known.contains(kv_type), "{name}");
        }
    }

    #[test]
    fn rows_are_read_by_whole_words() {
        for (name, kv_type) in KvType::ALL {
            for dim in [16, 80, 256] {
                let pages = pages(dim, *kv_type, *kv_type);
                for part in [pages.key, pages.value] {
                    // Four numbers of 16 bits are one word of 8 bytes, two codes one of 2.
                    let word = if matches!(kv_type, KvType::F16 | KvType::BF16) { 8 } else { 2 };
                    assert!(part.at % word == 0 && part.row_bytes % word == 0, "{name} {dim}");
                }
            }
        }
    }

    #[test]
    fn the_kernels_are_listed() {
        let listed = |name: &str| tensor_kernels().iter().any(|k| k.name == name);
        let all = [F16, BF16, PACKED, LATENT_F16, LATENT_BF16, LATENT_F8];
        assert!(all.iter().all(|pages| listed(pages.one) && listed(pages.two)));
    }
}
