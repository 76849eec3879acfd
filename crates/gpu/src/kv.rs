//! How a layer's pages and states lie in device memory.
//!
//! A page of a layer is `[key head][32 keys | 32 values]`, a latent page `[32 latents | 32 rotary keys]`; a row is stored in
//! its number type one number or block after the other.

use crate::args::StoredPart;
use lamina_plan::{KvLayout, KvType, KvTypes, LayerState, Limits, PAGE_LEN};

/// The code of a number type in `kernels/cache.h`.
fn code(kv_type: KvType) -> i32 {
    match kv_type {
        KvType::F32 => 0,
        KvType::F16 => 1,
        KvType::BF16 => 2,
        KvType::Q8_0 => 3,
        KvType::Q4_0 => 4,
        KvType::Q4_1 => 5,
        KvType::F8 => 6,
    }
}

/// Bytes of a stored row of `width` numbers; blocks are filled up.
fn row_bytes(kv_type: KvType, width: usize) -> usize {
    let dtype = kv_type.dtype();
    width.div_ceil(dtype.block_len()) * dtype.block_bytes()
}

/// Pages of a layer: keys, rotary keys beside latents, values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlan {
    pub group: usize,
    pub heads: usize,
    pub types: KvTypes,
    pub key: StoredPart,
    pub rope: StoredPart,
    pub value: StoredPart,
    pub head_bytes: usize,
    pub page_bytes: usize,
}

impl PagePlan {
    /// Pages of `layer`; none of a recurrent one.
    pub fn of(layer: &LayerState, types: KvTypes) -> Option<PagePlan> {
        let part = |at: usize, kv_type, width| StoredPart {
            at: at as i32,
            row_bytes: row_bytes(kv_type, width) as i32,
            code: code(kv_type),
            width: width as i32,
        };
        let end = |p: StoredPart| (p.at as usize) + PAGE_LEN * p.row_bytes as usize;
        // Heads begin at a multiple of 16 bytes, whatever their type.
        match *layer {
            LayerState::Paged { group, kv_heads, dim } => {
                let key = part(0, types.k, dim);
                let value = part(end(key), types.v, dim);
                let (rope, head_bytes) = (StoredPart::default(), end(value).next_multiple_of(16));
                let page_bytes = kv_heads * head_bytes;
                Some(PagePlan { group, heads: kv_heads, types, key, rope, value, head_bytes, page_bytes })
            }
            LayerState::Latent { group, rank, rope } => {
                let key = part(0, types.k, rank);
                let rope = part(end(key), types.k, rope);
                let page_bytes = end(rope).next_multiple_of(16);
                let head_bytes = page_bytes;
                Some(PagePlan { group, heads: 1, types, key, rope, value: key, head_bytes, page_bytes })
            }
            LayerState::Recurrent { .. } | LayerState::Elsewhere => None,
        }
    }
}

/// Bytes of a page of a group over its layers.
pub(crate) fn page_bytes(layout: &KvLayout, group: usize, types: KvTypes) -> usize {
    layout.of_group(group).filter_map(|l| PagePlan::of(l, types)).map(|p| p.page_bytes).sum()
}

/// What one layer keeps of sequences: equal pieces in one buffer.
pub(crate) struct LayerCache<B> {
    pub buffer: B,
    /// Pages; none where the pieces are recurrent states.
    pub pages: Option<PagePlan>,
    /// Bytes of a page or a state.
    pub piece: usize,
}

/// Pages of a layer, bytes of a piece and how many there are.
pub(crate) fn layer_size(layer: &LayerState, limits: &Limits) -> (Option<PagePlan>, usize, usize) {
    match *layer {
        LayerState::Recurrent { conv, state } => (None, (conv + state) * size_of::<f32>(), limits.states),
        LayerState::Elsewhere => (None, 0, 0),
        LayerState::Paged { group, .. } | LayerState::Latent { group, .. } => {
            let pages = PagePlan::of(layer, limits.kv[group]);
            (pages, pages.map_or(0, |p| p.page_bytes), limits.pages[group])
        }
    }
}
