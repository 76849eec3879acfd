//! Where layers lie in the cache, and how much memory they take: known before any is allocated.

use super::{CacheLayer, PageHome, PagedLayer, StateLayer, layer_page};
use crate::memory::{SharedPtr, product};
use lamina_kernels::Codec;
use lamina_plan::{KvLayout, LayerState, Limits, backend::Result, bound_stride};
use lamina_simd::Isa;

/// Where layers lie in the cache, and how much memory all take: known before any is allocated.
pub struct CacheSizes {
    pub(super) layers: Vec<CacheLayer>,
    /// Bytes of all pages.
    pub pages: usize,
    /// Bytes of all states.
    pub states: usize,
    pub(super) state_len: usize,
}

impl CacheSizes {
    /// The places of all layers.
    ///
    /// # Errors
    /// When they are more than an address can say.
    pub fn new(layout: &KvLayout, limits: &Limits, isa: Isa) -> Result<CacheSizes> {
        let codecs: Vec<Codec> = limits.kv.iter().map(|&types| Codec::new(types, isa)).collect();
        let (mut start, mut state) = (0, 0);
        let mut layers = vec![];
        for (i, l) in layout.layers.iter().enumerate() {
            let (group, kv_heads, dim) = match *l {
                LayerState::Recurrent { conv, state: n } => {
                    layers.push(CacheLayer::Recurrent(StateLayer { start: state, conv }));
                    state += conv + n;
                    continue;
                }
                LayerState::Elsewhere => {
                    layers.push(CacheLayer::Elsewhere);
                    continue;
                }
                LayerState::Paged { group, kv_heads, dim } => (group, kv_heads, dim),
                LayerState::Latent { group, rank, rope } => (group, 1, codecs[group].latent_dim(rank, rope)),
            };
            let codec = codecs[group];
            let page = layer_page(&codec, l);
            let (key_bytes, head_bytes) = (codec.key_page(dim), page / kv_heads);
            let bound = layout.bound.contains(&i);
            layers.push(CacheLayer::Paged(PagedLayer {
                group,
                codec,
                home: if bound { PageHome::Bound } else { PageHome::Own(start) },
                first: SharedPtr(std::ptr::null_mut()),
                page,
                stride: if bound { bound_stride(page) } else { page },
                kv_heads,
                dim,
                key_bytes,
                head_bytes,
                pages: limits.pages[group],
            }));
            let own = if bound { 0 } else { page };
            start = product(&[own, limits.pages[group]], "the KV cache")?
                .checked_add(start)
                .map_or_else(|| product(&[usize::MAX, 2], "the KV cache"), Ok)?;
        }
        let states = product(&[4, state, limits.states], "the recurrent states")?;
        Ok(CacheSizes { layers, pages: start, states, state_len: state })
    }

    /// Numbers of the widest row that is stored, filled up to whole blocks.
    pub fn widest_row(&self) -> usize {
        let width = |l: &CacheLayer| if let CacheLayer::Paged(l) = l { l.value_dim() } else { 0 };
        self.layers.iter().map(width).max().unwrap_or(0)
    }
}
