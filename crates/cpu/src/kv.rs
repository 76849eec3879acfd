//! The cache: pages of keys as weight panels, pages of values, and recurrent states.
//!
//! A page of keys has the layout of a weight panel whose rows are positions, so scores are ordinary panel products:
//! integer ones where the cache is quantized, and with the rows of all query heads of a group at once.

use crate::{
    act::{Act32, act32_kernel},
    format::{self, Kernels},
    kernel::{
        attend::{self, PanelMix},
        float::{self, FloatFormat},
        mix::{self, BlockValues, Mix},
    },
    memory::Aligned,
};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use lamina_plan::{KvLayout, KvType, KvTypes, LayerState, Limits, PAGE_LEN, backend::Result};
use lamina_simd::Isa;

/// How the keys and values of a layer group are stored and read.
#[derive(Clone, Copy)]
pub struct Codec {
    /// Kernels of key pages.
    pub keys: Kernels,
    /// How values are stored.
    pub values: Values,
    /// Weights times latents, which are read out of key pages.
    pub mix_latents: unsafe fn(&PanelMix),
    types: KvTypes,
    quantize: unsafe fn(*const f32, usize, *mut Act32, usize),
}

/// How a page of values is written and read.
#[derive(Clone, Copy)]
pub struct Values {
    /// Weights times values of a chunk.
    pub mix: unsafe fn(&Mix),
    /// Bytes of a page of values of a width.
    pub page_bytes: fn(usize) -> usize,
    /// Writes an encoded row to a position of a page of values of a width.
    pub put: fn(&[u8], usize, usize, &mut [u8]),
}

impl Values {
    fn numbers<F: FloatFormat>(isa: Isa) -> Values {
        Values {
            mix: mix::numbers_kernel::<F>(isa),
            page_bytes: |dim| PAGE_LEN * dim * F::BYTES,
            put: |row, place, _, page| page[place * row.len()..][..row.len()].copy_from_slice(row),
        }
    }

    fn blocks<V: BlockValues>(isa: Isa) -> Values {
        Values {
            mix: mix::blocks_kernel::<V>(isa),
            page_bytes: mix::page_bytes::<V>,
            put: mix::put_blocks::<V>,
        }
    }
}

impl Codec {
    /// The codec of these types on `isa`.
    pub fn new(types: KvTypes, isa: Isa) -> Codec {
        let values = match types.v {
            KvType::F32 => Values::numbers::<float::F32>(isa),
            KvType::F16 => Values::numbers::<float::F16>(isa),
            KvType::BF16 => Values::numbers::<float::BF16>(isa),
            KvType::F8 => Values::numbers::<float::F8>(isa),
            KvType::Q8_0 => Values::blocks::<mix::Q80>(isa),
            KvType::Q4_0 => Values::blocks::<mix::Q40>(isa),
            KvType::Q4_1 => Values::blocks::<mix::Q41>(isa),
        };
        let keys = format::kernels(types.k.dtype(), isa).expect("every cache type has kernels");
        let mix_latents = attend::mix_panel(isa, types.k);
        Codec { keys, values, mix_latents, types, quantize: act32_kernel(isa) }
    }

    /// Width of stored keys: whole blocks.
    pub fn key_dim(&self, dim: usize) -> usize {
        dim.next_multiple_of(self.keys.act.block())
    }

    /// Bytes of a page of keys of one head.
    pub fn key_page(&self, dim: usize) -> usize {
        PAGE_LEN / self.keys.rows * self.keys.panel_bytes(self.key_dim(dim))
    }

    /// Encodes `x`, padded with zeros up to `width`, into `out`.
    ///
    /// What is too large for float16 and 8-bit floats becomes the largest number of the type, and so do infinities: a
    /// later row's value must not be an infinity that a hidden weight of 0 turns into NaN. NaN stays NaN in all types but
    /// 8-bit floats, whose kernels have no code for it.
    fn encode(&self, kv_type: KvType, x: &[f32], width: usize, out: &mut Vec<u8>) {
        let mut padded = vec![];
        let x = if width == x.len() {
            x
        } else {
            padded.extend_from_slice(x);
            padded.resize(width, 0.0);
            &padded[..]
        };
        out.clear();
        match kv_type {
            KvType::F32 => out.extend_from_slice(bytemuck::cast_slice(x)),
            KvType::F16 => {
                out.resize(2 * width, 0);
                let mut halves = [f16::ZERO; 64];
                for (x, out) in x.chunks(64).zip(out.chunks_mut(128)) {
                    let mut finite = [0f32; 64];
                    let most = f16::MAX.to_f32();
                    finite.iter_mut().zip(x).for_each(|(to, v)| *to = v.clamp(-most, most));
                    halves[..x.len()].convert_from_f32_slice(&finite[..x.len()]);
                    halves
                        .iter()
                        .zip(out.chunks_exact_mut(2))
                        .for_each(|(h, o)| o.copy_from_slice(&h.to_le_bytes()));
                }
            }
            KvType::BF16 => x.iter().for_each(|&v| out.extend(bf16::from_f32(v).to_le_bytes())),
            KvType::F8 => out.extend(x.iter().map(|&v| to_e4m3(v))),
            KvType::Q8_0 => self.encode_q8(x, out),
            KvType::Q4_0 | KvType::Q4_1 => {
                out.resize(kv_type.dtype().bytes_for(width).expect("whole blocks"), 0);
                if lamina_quant::encode(kv_type.dtype(), x, None, out).is_err() {
                    // Blocks have no code for what is not finite: their scales say it.
                    let nan = f16::NAN.to_le_bytes();
                    let blocks = out.chunks_exact_mut(kv_type.dtype().block_bytes());
                    blocks.for_each(|block| block[..2].copy_from_slice(&nan));
                }
            }
        }
    }

    /// A value as [`Values::put`] takes it.
    pub fn encoded_value(&self, value: &[f32]) -> Vec<u8> {
        let mut row = vec![];
        self.encode(self.types.v, value, value.len(), &mut row);
        row
    }

    /// A key as the key kernels' `put` takes it, padded to whole blocks.
    pub fn encoded_key(&self, key: &[f32]) -> Vec<u8> {
        let mut row = vec![];
        self.encode(self.types.k, key, self.key_dim(key.len()), &mut row);
        row
    }

    fn encode_q8(&self, x: &[f32], out: &mut Vec<u8>) {
        for x in x.chunks_exact(32) {
            let mut block = Act32 { q: [0; 32], d: 0.0, sum: 0, low: 0 };
            // SAFETY: 32 numbers make one block, and the kernel was chosen for this CPU.
            unsafe { (self.quantize)(x.as_ptr(), 32, &mut block, 1) };
            let most = f16::MAX.to_f32();
            let d = if block.d.is_finite() { block.d.min(most) } else { f32::NAN };
            out.extend(f16::from_f32(d).to_le_bytes());
            out.extend_from_slice(bytemuck::cast_slice(&block.q));
        }
    }
}

/// Nearest 8-bit float (e4m3fn), ties to even, cut at 448.
fn to_e4m3(v: f32) -> u8 {
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    // NaN becomes the largest number too: kernels read its code as one.
    let a = v.abs().min(448.0);
    // Steps are 2^-9 below 2^-6, and an eighth of the power of two above.
    let exponent = ((a.to_bits() >> 23) as i32 - 127).max(-6);
    let step = f32::from_bits(((exponent - 3 + 127) as u32) << 23);
    let steps = (a / step).round_ties_even() as u32;
    // Rounding up to the next power of two carries into the exponent by itself.
    let bits = (((exponent + 6) as u32) << 3) + steps;
    sign | bits as u8
}

/// Where the pages of one attention layer are.
#[derive(Clone, Copy)]
pub struct PagedLayer {
    /// Layer group.
    pub group: usize,
    /// How its keys and values are stored and read.
    pub codec: Codec,
    start: usize,
    /// Bytes of a page over all heads.
    page: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub dim: usize,
    key_bytes: usize,
    head_bytes: usize,
}

impl PagedLayer {
    /// Width of stored values: whole vectors of every instruction set.
    pub fn value_dim(&self) -> usize {
        self.dim.next_multiple_of(32)
    }
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
pub enum Layer {
    /// Keys and values, or latents (one head without values).
    Paged(PagedLayer),
    /// State.
    Recurrent(StateLayer),
}

/// All pages and states.
pub struct Cache {
    /// Layers in the order of the layout.
    pub layers: Vec<Layer>,
    pages: Aligned,
    states: Aligned,
    state_len: usize,
}

/// Bytes of a page of one layer: all heads, keys then values of each.
fn layer_page(codec: &Codec, layer: &LayerState) -> usize {
    match *layer {
        LayerState::Paged { kv_heads, dim, .. } => {
            let values = (codec.values.page_bytes)(dim.next_multiple_of(32));
            kv_heads * (codec.key_page(dim) + values).next_multiple_of(64)
        }
        LayerState::Latent { rank, rope, .. } => codec.key_page(rank + rope).next_multiple_of(64),
        LayerState::Recurrent { .. } => 0,
    }
}

/// Bytes of a page of a layer group, over its layers.
pub fn page_bytes(codec: &Codec, layout: &KvLayout, group: usize) -> usize {
    layout.of_group(group).map(|l| layer_page(codec, l)).sum()
}

impl Cache {
    /// Empty pages and states.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn new(layout: &KvLayout, limits: &Limits, isa: Isa) -> Result<Cache> {
        let codecs: Vec<Codec> = limits.kv.iter().map(|&types| Codec::new(types, isa)).collect();
        let (mut start, mut state) = (0, 0);
        let mut layers = vec![];
        for l in &layout.layers {
            let (group, kv_heads, dim) = match *l {
                LayerState::Recurrent { conv, state: n } => {
                    layers.push(Layer::Recurrent(StateLayer { start: state, conv }));
                    state += conv + n;
                    continue;
                }
                LayerState::Paged { group, kv_heads, dim } => (group, kv_heads, dim),
                LayerState::Latent { group, rank, rope } => (group, 1, rank + rope),
            };
            let codec = codecs[group];
            let page = layer_page(&codec, l);
            let (key_bytes, head_bytes) = (codec.key_page(dim), page / kv_heads);
            layers.push(Layer::Paged(PagedLayer {
                group,
                codec,
                start,
                page,
                kv_heads,
                dim,
                key_bytes,
                head_bytes,
            }));
            start += page * limits.pages[group];
        }
        let pages = Aligned::zeroed(start, "the KV cache")?;
        let states = Aligned::zeroed(4 * state * limits.states, "the recurrent states")?;
        Ok(Cache { layers, pages, states, state_len: state })
    }

    /// Paged layer `kv`.
    pub fn paged(&self, kv: usize) -> PagedLayer {
        match self.layers[kv] {
            Layer::Paged(p) => p,
            Layer::Recurrent(_) => unreachable!("the plan names paged layers in attention"),
        }
    }

    /// Recurrent layer `kv`.
    pub fn recurrent(&self, kv: usize) -> StateLayer {
        match self.layers[kv] {
            Layer::Recurrent(s) => s,
            Layer::Paged(_) => unreachable!("the plan names recurrent layers in scans"),
        }
    }

    /// Key panels of a head in a page.
    pub fn keys(&self, l: &PagedLayer, page: usize, head: usize) -> *mut u8 {
        self.pages.ptr_mut().wrapping_add(l.start + page * l.page + head * l.head_bytes)
    }

    /// Value rows of a head in a page.
    pub fn values(&self, l: &PagedLayer, page: usize, head: usize) -> *mut u8 {
        self.keys(l, page, head).wrapping_add(l.key_bytes)
    }

    /// First number of a layer's part of a state.
    pub fn state(&self, l: &StateLayer, state: usize) -> *mut f32 {
        self.states.ptr_mut().cast::<f32>().wrapping_add(state * self.state_len + l.start)
    }

    /// Writes the key of one position into its lane.
    ///
    /// `place` is the position inside the page; one task at a time writes to a page of a head.
    pub fn put_key(
        &self,
        l: &PagedLayer,
        page: usize,
        head: usize,
        place: usize,
        key: &[f32],
        row: &mut Vec<u8>,
    ) {
        let codec = &l.codec;
        codec.encode(codec.types.k, key, codec.key_dim(l.dim), row);
        let n = codec.keys.rows;
        let panel_bytes = codec.keys.panel_bytes(codec.key_dim(l.dim));
        let panel = self.keys(l, page, head).wrapping_add(place / n * panel_bytes);
        // SAFETY: the panel lies inside the page, which no other task writes.
        let panel = unsafe { std::slice::from_raw_parts_mut(panel, panel_bytes) };
        // SAFETY: the kernels were chosen for this CPU.
        unsafe { (codec.keys.put)(row, place % n, panel) };
    }

    /// Writes the value of one position; as with keys, one task at a time writes to a page of a head.
    pub fn put_value(
        &self,
        l: &PagedLayer,
        page: usize,
        head: usize,
        place: usize,
        value: &[f32],
        row: &mut Vec<u8>,
    ) {
        l.codec.encode(l.codec.types.v, value, l.value_dim(), row);
        let bytes = (l.codec.values.page_bytes)(l.value_dim());
        // SAFETY: the values lie inside the page, which no other task writes.
        let page = unsafe { std::slice::from_raw_parts_mut(self.values(l, page, head), bytes) };
        (l.codec.values.put)(row, place, l.value_dim(), page);
    }

    /// Copies a page of every layer of a group.
    pub fn copy_page(&self, group: usize, from: usize, to: usize) {
        for ((from, bytes), (to, _)) in self.pieces(group, from).zip(self.pieces(group, to)) {
            // SAFETY: both pages lie inside the layer.
            unsafe { std::ptr::copy(from, to, bytes) };
        }
    }

    /// A page of each layer of a group, in their order: where it starts, and how many bytes it has.
    fn pieces(&self, group: usize, page: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        self.layers.iter().filter_map(move |l| match l {
            Layer::Paged(l) if l.group == group => Some((self.keys(l, page, 0), l.page)),
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

#[cfg(test)]
mod tests;
