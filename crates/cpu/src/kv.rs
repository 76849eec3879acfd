//! The cache: pages of keys as weight panels, pages of values, and recurrent states.
//!
//! A page of keys has the layout of a weight panel whose rows are positions, so scores are ordinary panel products:
//! integer ones where the cache is quantized, and with the rows of all query heads of a group at once.

mod sizes;

use crate::memory::{Aligned, SharedPtr};
use lamina_base::PageBuffer;
use lamina_kernels::{CacheRow, Codec, VALUE_BLOCK};
use lamina_plan::{BackendError, KvLayout, LayerState, PAGE_LEN, backend::Result};
pub use sizes::CacheSizes;

/// Where the pages of one attention layer are.
#[derive(Clone, Copy)]
pub struct PagedLayer {
    /// Layer group.
    pub group: usize,
    /// How its keys and values are stored and read.
    pub codec: Codec,
    home: PageHome,
    /// First page; of a layer without memory of its own while it is bound.
    first: SharedPtr<u8>,
    /// Bytes of a page over all heads.
    page: usize,
    /// Bytes from one page to the next.
    stride: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head; of latents with their rotary keys, as they are stored.
    pub dim: usize,
    key_bytes: usize,
    head_bytes: usize,
    /// Pages of the layer's group.
    pages: usize,
}

impl PagedLayer {
    /// Width of stored values.
    pub fn value_dim(&self) -> usize {
        self.dim.next_multiple_of(VALUE_BLOCK)
    }
}

/// Whose memory the pages of a layer are in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageHome {
    /// That of the cache, from this byte on.
    Own(usize),
    /// That of whoever binds it.
    Bound,
}

/// Where the states of one recurrent layer are, in float32 numbers.
#[derive(Clone, Copy)]
pub struct StateLayer {
    /// First number inside a state.
    pub start: usize,
    /// Numbers of the convolution.
    pub conv: usize,
}

/// Place of one layer.
#[derive(Clone, Copy)]
pub enum CacheLayer {
    /// Keys and values, or latents (one head without values).
    Paged(PagedLayer),
    /// State.
    Recurrent(StateLayer),
    /// Nothing here.
    Elsewhere,
}

/// All pages and states.
pub struct Cache {
    /// Layers in the order of the layout.
    pub layers: Vec<CacheLayer>,
    /// Owns the pages, to which layers point.
    _pages: Aligned,
    /// What layers without memory of their own are bound to, by layer.
    bound: Vec<Option<PageBuffer>>,
    states: Aligned,
    state_len: usize,
}

/// Bytes of a page of one layer: all heads, keys then values of each.
fn layer_page(codec: &Codec, layer: &LayerState) -> usize {
    match *layer {
        LayerState::Paged { kv_heads, dim, .. } => {
            let values = codec.values().page_bytes(dim.next_multiple_of(VALUE_BLOCK));
            kv_heads * (codec.key_page(dim) + values).next_multiple_of(64)
        }
        LayerState::Latent { rank, rope, .. } => {
            codec.key_page(codec.latent_dim(rank, rope)).next_multiple_of(64)
        }
        LayerState::Recurrent { .. } | LayerState::Elsewhere => 0,
    }
}

/// Bytes of a page of a layer group, over its layers that have memory of their own.
pub fn page_bytes(codec: &Codec, layout: &KvLayout, group: usize) -> usize {
    layout.kept_of_group(group).map(|l| layer_page(codec, l)).sum()
}

impl Cache {
    /// Empty pages and states.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn new(sizes: CacheSizes) -> Result<Cache> {
        let pages = Aligned::zeroed(sizes.pages, "the KV cache")?;
        let states = Aligned::zeroed(sizes.states, "the recurrent states")?;
        let mut layers = sizes.layers;
        for layer in &mut layers {
            if let CacheLayer::Paged(PagedLayer { home: PageHome::Own(start), first, .. }) = layer {
                *first = SharedPtr(pages.ptr_mut().wrapping_add(*start));
            }
        }
        let bound = layers.iter().map(|_| None).collect();
        Ok(Cache { layers, _pages: pages, bound, states, state_len: sizes.state_len })
    }

    /// Pages of a layer without memory of its own are in `pages` from now on; returns where they were.
    ///
    /// # Errors
    /// When the layer has memory of its own, or `pages` has no room for all of it.
    pub fn bind(&mut self, kv: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        let unsupported = |what: String| BackendError::Unsupported { backend: "cpu", what };
        let Some(CacheLayer::Paged(layer)) = self
            .layers
            .get_mut(kv)
            .filter(|l| matches!(l, CacheLayer::Paged(l) if l.home == PageHome::Bound))
        else {
            return Err(unsupported(format!("binding layer {kv} of the cache, which lies in memory")));
        };
        let room = layer.pages * layer.stride;
        if let Some(few) = pages.as_ref().map(|p| p.bytes().len()).filter(|&bytes| bytes < room) {
            return Err(unsupported(format!("layer {kv} of the cache in {few} bytes: it has {room}")));
        }
        let before = std::mem::replace(&mut self.bound[kv], pages);
        // Taken behind the move: what has the memory is not touched until it is given back.
        let first = self.bound[kv].as_mut().map_or(std::ptr::null_mut(), |p| p.bytes_mut().as_mut_ptr());
        layer.first = SharedPtr(first);
        Ok(before)
    }

    /// Bytes of all pages and states.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self._pages.len() + self.states.len()
    }

    /// Paged layer `kv`.
    ///
    /// # Errors
    /// When its pages lie elsewhere, and it is not bound.
    pub fn paged(&self, kv: usize) -> Result<PagedLayer> {
        match self.layers[kv] {
            CacheLayer::Paged(p) if p.first.0.is_null() => {
                let what = format!("layer {kv} of the cache, which is not bound");
                Err(BackendError::Unsupported { backend: "cpu", what })
            }
            CacheLayer::Paged(p) => Ok(p),
            _ => unreachable!("the plan names paged layers of this machine in attention"),
        }
    }

    /// Recurrent layer `kv`.
    pub fn recurrent(&self, kv: usize) -> StateLayer {
        match self.layers[kv] {
            CacheLayer::Recurrent(s) => s,
            _ => unreachable!("the plan names recurrent layers of this machine in scans"),
        }
    }

    /// Key panels of a head in a page.
    ///
    /// # Panics
    /// When the layer has no such page or head.
    pub fn keys(&self, l: &PagedLayer, page: usize, head: usize) -> *mut u8 {
        assert!(page < l.pages && head < l.kv_heads, "page {page}, head {head}");
        l.first.0.wrapping_add(page * l.stride + head * l.head_bytes)
    }

    /// Key panels of a head in a page, for reading.
    ///
    /// # Safety
    /// Nobody writes to them while the slice is used.
    pub unsafe fn key_panels(&self, l: &PagedLayer, page: usize, head: usize) -> &[u8] {
        // SAFETY: `keys` has seen that page and head are the layer's, whose keys take these bytes; nobody writes them.
        unsafe { std::slice::from_raw_parts(self.keys(l, page, head), l.codec.key_page(l.dim)) }
    }

    /// Values of a head in a page, for reading.
    ///
    /// # Safety
    /// Nobody writes to them while the slice is used.
    pub unsafe fn value_rows(&self, l: &PagedLayer, page: usize, head: usize) -> &[u8] {
        let bytes = l.codec.values().page_bytes(l.value_dim());
        // SAFETY: `values` has seen that page and head are the layer's, whose values take these bytes; nobody writes them.
        unsafe { std::slice::from_raw_parts(self.values(l, page, head), bytes) }
    }

    /// Value rows of a head in a page.
    pub fn values(&self, l: &PagedLayer, page: usize, head: usize) -> *mut u8 {
        self.keys(l, page, head).wrapping_add(l.key_bytes)
    }

    /// First number of a layer's part of a state.
    pub fn state(&self, l: &StateLayer, state: usize) -> *mut f32 {
        self.states.ptr_mut().cast::<f32>().wrapping_add(state * self.state_len + l.start)
    }

    /// Writes the key of one position, of one or more pieces, into its lane.
    ///
    /// `place` is the position inside the page.
    ///
    /// # Safety
    /// Nobody else uses the keys of this head in this page meanwhile.
    pub unsafe fn put_key(
        &self,
        l: &PagedLayer,
        page: usize,
        head: usize,
        place: usize,
        key: &[&[f32]],
        row: &mut CacheRow,
    ) {
        let codec = &l.codec;
        let row = codec.encode_key(key, row);
        let n = codec.keys().rows();
        let panel_bytes = codec.keys().panel_bytes(codec.key_dim(l.dim));
        let panel = self.keys(l, page, head).wrapping_add(place / n * panel_bytes);
        assert!(place < PAGE_LEN);
        // SAFETY: `keys` has seen that the page is one of the layer's, a page has `PAGE_LEN / n` panels, and the caller
        // promises that nobody else uses the keys of this head in it.
        let panel = unsafe { std::slice::from_raw_parts_mut(panel, panel_bytes) };
        codec.keys().put(row, place % n, panel);
    }

    /// Writes the value of one position.
    ///
    /// # Safety
    /// Nobody else uses the values of this head in this page meanwhile.
    pub unsafe fn put_value(
        &self,
        l: &PagedLayer,
        page: usize,
        head: usize,
        place: usize,
        value: &[f32],
        row: &mut CacheRow,
    ) {
        let row = l.codec.encode_value(value, row);
        let bytes = l.codec.values().page_bytes(l.value_dim());
        // SAFETY: `values` has seen that the page is one of the layer's, the values of a head take these bytes of it, and the
        // caller promises that nobody else uses them.
        let page = unsafe { std::slice::from_raw_parts_mut(self.values(l, page, head), bytes) };
        l.codec.values().put(row, place, l.value_dim(), page);
    }

    /// Moves key and value of a head from one page and place to another, as they are stored; `bytes` is room for them.
    ///
    /// # Safety
    /// Nobody writes to this head of the page that they come from, and nobody else uses that of the page that they go to.
    pub unsafe fn move_cell(
        &self,
        l: &PagedLayer,
        head: usize,
        from: (usize, usize),
        to: (usize, usize),
        bytes: &mut Vec<u8>,
    ) {
        let (codec, n, dim) = (&l.codec, l.codec.keys().rows(), l.value_dim());
        let panel_bytes = codec.keys().panel_bytes(codec.key_dim(l.dim));
        let panel = |place: usize| place / n * panel_bytes..(place / n + 1) * panel_bytes;
        // SAFETY: the caller promises that nobody writes to them.
        let keys = unsafe { self.key_panels(l, from.0, head) };
        let lane = codec.lane();
        lane.take(&keys[panel(from.1)], from.1 % n, bytes);
        // SAFETY: `keys` has seen that the page is one of the layer's, whose keys take these bytes, and the caller promises
        // that nobody else uses them; what was read of this page is not used any more.
        let keys = unsafe { std::slice::from_raw_parts_mut(self.keys(l, to.0, head), codec.key_page(l.dim)) };
        lane.put(bytes, to.1 % n, &mut keys[panel(to.1)]);
        // SAFETY: the caller promises that nobody writes to them.
        codec.values().take(unsafe { self.value_rows(l, from.0, head) }, from.1, dim, bytes);
        // SAFETY: as for the keys.
        let values = unsafe {
            std::slice::from_raw_parts_mut(self.values(l, to.0, head), codec.values().page_bytes(dim))
        };
        codec.values().put(bytes, to.1, dim, values);
    }

    /// Copies a page of every layer of a group.
    pub fn copy_page(&self, group: usize, from: usize, to: usize) {
        for ((from, bytes), (to, _)) in self.pieces(group, from).zip(self.pieces(group, to)) {
            // SAFETY: both pages lie inside the layer.
            unsafe { std::ptr::copy(from, to, bytes) };
        }
    }

    /// A page of each layer of a group that has memory of its own, in their order: where it starts, and how many bytes it has.
    fn pieces(&self, group: usize, page: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        self.layers.iter().filter_map(move |l| match l {
            CacheLayer::Paged(l) if l.group == group && l.home != PageHome::Bound => {
                Some((self.keys(l, page, 0), l.page))
            }
            _ => None,
        })
    }

    /// A page of every layer of a group.
    pub fn export_page(&self, group: usize, page: usize) -> Vec<u8> {
        let mut out = vec![];
        for (at, bytes) in self.pieces(group, page) {
            // SAFETY: the page lies inside the layer, and nothing writes it while no operator runs.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(at, bytes) });
        }
        out
    }

    /// Puts a page back; false when `bytes` are not as many as a page has.
    pub fn import_page(&mut self, group: usize, page: usize, mut bytes: &[u8]) -> bool {
        if self.pieces(group, page).map(|(_, n)| n).sum::<usize>() != bytes.len() {
            return false;
        }
        for (at, n) in self.pieces(group, page) {
            let (piece, rest) = bytes.split_at(n);
            // SAFETY: the page lies inside the layer, and `piece` has as many bytes.
            unsafe { at.copy_from_nonoverlapping(piece.as_ptr(), n) };
            bytes = rest;
        }
        true
    }

    /// Numbers of a state, as bytes.
    pub fn export_state(&self, state: usize) -> Vec<u8> {
        let bytes = 4 * self.state_len;
        // SAFETY: the state lies inside the memory, and nothing writes it while no operator runs.
        unsafe { std::slice::from_raw_parts(self.states.ptr().wrapping_add(state * bytes), bytes) }.to_vec()
    }

    /// Puts a state back; false when `bytes` are not as many as a state has.
    pub fn import_state(&mut self, state: usize, bytes: &[u8]) -> bool {
        let fits = bytes.len() == 4 * self.state_len;
        if fits {
            let at = self.states.ptr_mut().wrapping_add(state * bytes.len());
            // SAFETY: the state lies inside the memory.
            unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        fits
    }

    /// Copies a state, or clears it.
    pub fn copy_state(&self, from: Option<usize>, to: usize) {
        let at = |i: usize| self.states.ptr_mut().cast::<f32>().wrapping_add(i * self.state_len);
        match from {
            // SAFETY: both states lie inside the memory.
            Some(from) => unsafe { std::ptr::copy(at(from), at(to), self.state_len) },
            // SAFETY: the state lies inside the memory, and zero bits are 0.0.
            None => unsafe { at(to).write_bytes(0, self.state_len) },
        }
    }
}
