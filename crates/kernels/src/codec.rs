//! How one type of keys and one of values is written into pages of the cache, and which kernels read it.
//!
//! A page of keys has the layout of a weight panel whose rows are positions.

use crate::{
    act::{Act32, act32_kernel},
    attend::{self, PanelMix},
    float::{self, FloatFormat},
    format::{self, Kernels},
    lane::LaneBytes,
    mix::{self, BlockValues, ValueMix},
};
use bytemuck::Zeroable;
use half::{bf16, f16, slice::HalfFloatSliceExt};
use lamina_base::{KvType, KvTypes, PAGE_LEN};
use lamina_simd::Isa;

/// Stored values are filled up to a multiple of this: whole blocks, and whole vectors of every instruction set.
pub const VALUE_BLOCK: usize = 32;

/// A key or value on its way into the cache. A thread keeps one: its memory is used again for every row.
pub struct CacheRow {
    /// Pieces one after the other, filled up to whole blocks.
    numbers: Vec<f32>,
    /// As its type stores it.
    bytes: Vec<u8>,
}

impl CacheRow {
    /// Bytes that rows of `width` numbers take.
    pub fn bytes(width: usize) -> usize {
        2 * width * size_of::<f32>()
    }

    /// Bytes that there is room for.
    pub fn held(&self) -> usize {
        self.numbers.capacity() * size_of::<f32>() + self.bytes.capacity()
    }

    /// Room for rows of `width` numbers, of any type.
    pub fn new(width: usize) -> CacheRow {
        CacheRow { numbers: Vec::with_capacity(width), bytes: Vec::with_capacity(width * size_of::<f32>()) }
    }
}

/// How the keys and values of a layer group are stored and read.
#[derive(Clone, Copy)]
pub struct Codec {
    keys: Kernels,
    lane: fn(usize) -> LaneBytes,
    values: Values,
    /// Weights times latents, which are read out of key pages; none for types that latents are never kept in.
    mix_latents: Option<unsafe fn(&PanelMix<'_>)>,
    types: KvTypes,
    quantize: unsafe fn(*const f32, usize, *mut Act32, usize),
}

/// How a page of values is written and read.
#[derive(Clone, Copy)]
pub struct Values {
    lanes: usize,
    mix: unsafe fn(&ValueMix<'_>),
    page_bytes: fn(usize) -> usize,
    put: fn(&[u8], usize, usize, &mut [u8]),
    take: fn(&[u8], usize, usize, &mut Vec<u8>),
    copy: fn(&[u8], [usize; 2], usize, &mut [u8]),
}

impl Values {
    /// Bytes of a page of values of `dim` numbers, whole blocks.
    pub fn page_bytes(&self, dim: usize) -> usize {
        (self.page_bytes)(dim)
    }

    /// Writes an encoded row to position `place` of a page of values of `dim` numbers.
    ///
    /// # Panics
    /// When the page has no such position.
    pub fn put(&self, row: &[u8], place: usize, dim: usize, page: &mut [u8]) {
        (self.put)(row, place, dim, page);
    }

    /// Reads the encoded row of position `place` of a page of values of `dim` numbers.
    ///
    /// # Panics
    /// When the page has no such position.
    pub fn take(&self, page: &[u8], place: usize, dim: usize, row: &mut Vec<u8>) {
        (self.take)(page, place, dim, row);
    }

    /// Copies the first of two positions of a page of values of `dim` numbers to the second one of another page.
    ///
    /// # Panics
    /// When the pages have no such positions.
    pub fn copy(&self, from: &[u8], places: [usize; 2], dim: usize, to: &mut [u8]) {
        (self.copy)(from, places, dim, to);
    }

    /// Weights times values of a chunk.
    ///
    /// # Panics
    /// When a page has fewer bytes than values of its width take, or weights are in groups of another number of lanes.
    pub fn mix(&self, m: &ValueMix<'_>) {
        let (bytes, dim) = m.page();
        assert!(bytes >= (self.page_bytes)(dim), "too few values");
        assert_eq!(m.lanes(), self.lanes, "weights of another instruction set");
        // SAFETY: `Codec::new` takes the kernel of an instruction set that `format::kernels` has seen to be there, and pages
        // were just compared with what this type's kernel reads.
        unsafe { (self.mix)(m) };
    }

    fn numbers<F: FloatFormat>(isa: Isa) -> Values {
        Values {
            lanes: format::lanes(isa),
            mix: mix::numbers_kernel::<F>(isa),
            page_bytes: |dim| PAGE_LEN * dim * F::BYTES,
            put: |row, place, _, page| page[place * row.len()..][..row.len()].copy_from_slice(row),
            take: |page, place, dim, row| {
                let bytes = dim * F::BYTES;
                row.clear();
                row.extend_from_slice(&page[place * bytes..][..bytes]);
            },
            copy: |from, [a, b], dim, to| {
                let bytes = dim * F::BYTES;
                to[b * bytes..][..bytes].copy_from_slice(&from[a * bytes..][..bytes]);
            },
        }
    }

    fn blocks<V: BlockValues>(isa: Isa) -> Values {
        Values {
            lanes: format::lanes(isa),
            mix: mix::blocks_kernel::<V>(isa),
            page_bytes: mix::page_bytes::<V>,
            put: mix::put_blocks::<V>,
            take: mix::take_blocks::<V>,
            copy: mix::copy_blocks::<V>,
        }
    }
}

impl Codec {
    /// The codec of these types on `isa`.
    ///
    /// # Panics
    /// When this CPU lacks the instructions.
    pub fn new(types: KvTypes, isa: Isa) -> Codec {
        let values = match types.v {
            KvType::F32 => Values::numbers::<float::F32>(isa),
            KvType::F16 => Values::numbers::<float::F16>(isa),
            KvType::BF16 => Values::numbers::<float::BF16>(isa),
            KvType::F8 => Values::numbers::<float::F8>(isa),
            KvType::Q8_0 => Values::blocks::<mix::Q8Values>(isa),
            KvType::Q4_0 => Values::blocks::<mix::Q4Values>(isa),
            KvType::Q4_1 => Values::blocks::<mix::Q41Values>(isa),
        };
        let keys = format::kernels(types.k.dtype(), isa).expect("every cache type has kernels");
        let quantize = act32_kernel(isa);
        let mix_latents: Option<unsafe fn(&PanelMix<'_>)> = match types.k {
            KvType::F32 => Some(attend::mix_panels_kernel::<float::F32>(isa)),
            KvType::F16 => Some(attend::mix_panels_kernel::<float::F16>(isa)),
            KvType::BF16 => Some(attend::mix_panels_kernel::<float::BF16>(isa)),
            KvType::F8 => Some(attend::mix_panels_kernel::<float::F8>(isa)),
            KvType::Q8_0 => Some(attend::mix_blocks_kernel::<format::Q80>(isa)),
            KvType::Q4_0 | KvType::Q4_1 => None,
        };
        let lane: fn(usize) -> LaneBytes = match types.k {
            KvType::F32 => LaneBytes::numbers::<float::F32>,
            KvType::F16 => LaneBytes::numbers::<float::F16>,
            KvType::BF16 => LaneBytes::numbers::<float::BF16>,
            KvType::F8 => LaneBytes::numbers::<float::F8>,
            KvType::Q8_0 => LaneBytes::blocks::<format::Q80>,
            KvType::Q4_0 => LaneBytes::blocks::<format::Q40>,
            KvType::Q4_1 => LaneBytes::blocks::<format::Q41>,
        };
        Codec { keys, lane, values, mix_latents, types, quantize }
    }

    /// Kernels of key pages.
    pub fn keys(&self) -> &Kernels {
        &self.keys
    }

    /// How values are stored.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Where the bytes of a key lie in a panel.
    pub fn lane(&self) -> LaneBytes {
        (self.lane)(self.keys.rows())
    }

    /// True where keys can be averaged, as latents are: the kernel is the same.
    pub fn averages_keys(&self) -> bool {
        self.mix_latents.is_some()
    }

    /// Weights times latents of a chunk.
    ///
    /// # Panics
    /// When pages are of another type or instruction set, or of one that has no kernel for latents.
    pub fn mix_latents(&self, m: &PanelMix<'_>) {
        let mix = self.mix_latents.expect("latents are kept in a type that has a kernel for them");
        let (lanes, panel) = m.sizes();
        let own = self.keys.panel(panel.blocks * self.keys.act().block());
        assert!(lanes == self.keys.lanes() && panel == own, "pages of another type or instruction set");
        // SAFETY: `format::kernels` has seen in `new` that the instruction set is there, and `PanelMix::new` that the pages,
        // which are of this type, hold the columns.
        unsafe { mix(m) };
    }

    /// Width of stored keys: whole blocks.
    pub fn key_dim(&self, dim: usize) -> usize {
        dim.next_multiple_of(self.keys.act().block())
    }

    /// Width of a stored latent with its rotary key. Each takes whole blocks, so that no scale serves both: rotary keys
    /// are not normed, and often several times larger.
    pub fn latent_dim(&self, rank: usize, rope: usize) -> usize {
        self.key_dim(rank) + self.key_dim(rope)
    }

    /// Bytes of a page of keys of one head.
    pub fn key_page(&self, dim: usize) -> usize {
        PAGE_LEN / self.keys.rows() * self.keys.panel_bytes(self.key_dim(dim))
    }

    /// The `pieces` of a row in the form of a type, one after the other, each filled up with zeros to a multiple of `block`
    /// numbers.
    ///
    /// What is too large for float16 and 8-bit floats becomes the largest number of the type, and so do infinities: a
    /// later row's value must not be an infinity that a hidden weight of 0 turns into NaN. NaN stays NaN in all types.
    fn encode<'a>(
        &self,
        kv_type: KvType,
        pieces: &[&[f32]],
        block: usize,
        row: &'a mut CacheRow,
    ) -> &'a [u8] {
        let CacheRow { numbers, bytes: out } = row;
        let x = match pieces {
            [whole] if whole.len().is_multiple_of(block) => *whole,
            _ => {
                numbers.clear();
                for piece in pieces {
                    numbers.extend_from_slice(piece);
                    numbers.resize(numbers.len().next_multiple_of(block), 0.0);
                }
                &numbers[..]
            }
        };
        out.clear();
        match kv_type {
            KvType::F32 => out.extend_from_slice(bytemuck::cast_slice(x)),
            KvType::F16 => {
                out.resize(2 * x.len(), 0);
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
                out.resize(kv_type.dtype().bytes_for(x.len()).expect("whole blocks"), 0);
                if lamina_quant::encode(kv_type.dtype(), x, None, out).is_err() {
                    // Blocks have no code for what is not finite: their scales say it.
                    let nan = f16::NAN.to_le_bytes();
                    let blocks = out.chunks_exact_mut(kv_type.dtype().block_bytes());
                    blocks.for_each(|block| block[..2].copy_from_slice(&nan));
                }
            }
        }
        out
    }

    /// A key of one or more pieces as [`Kernels::put`] takes it, each piece filled up to whole blocks.
    pub fn encode_key<'a>(&self, pieces: &[&[f32]], row: &'a mut CacheRow) -> &'a [u8] {
        self.encode(self.types.k, pieces, self.keys.act().block(), row)
    }

    /// A value as [`Values::put`] takes it, filled up to a multiple of [`VALUE_BLOCK`].
    pub fn encode_value<'a>(&self, value: &[f32], row: &'a mut CacheRow) -> &'a [u8] {
        self.encode(self.types.v, &[value], VALUE_BLOCK, row)
    }

    /// As [`Codec::encode_key`], in memory of its own.
    pub fn encoded_key(&self, key: &[f32]) -> Vec<u8> {
        self.encode_key(&[key], &mut CacheRow::new(key.len())).to_vec()
    }

    /// As [`Codec::encode_value`], in memory of its own.
    pub fn encoded_value(&self, value: &[f32]) -> Vec<u8> {
        self.encode_value(value, &mut CacheRow::new(value.len())).to_vec()
    }

    fn encode_q8(&self, x: &[f32], out: &mut Vec<u8>) {
        for x in x.chunks_exact(32) {
            let mut block = Act32::zeroed();
            // SAFETY: 32 numbers make one block, and the kernel was chosen for this CPU.
            unsafe { (self.quantize)(x.as_ptr(), 32, &mut block, 1) };
            let most = f16::MAX.to_f32();
            let d = if block.d.is_finite() { block.d.min(most) } else { f32::NAN };
            out.extend(f16::from_f32(d).to_le_bytes());
            out.extend_from_slice(bytemuck::cast_slice(&block.q));
        }
    }
}

/// Nearest 8-bit float (e4m3fn), ties to even, cut at 448; NaN stays NaN.
fn to_e4m3(v: f32) -> u8 {
    if v.is_nan() {
        return 0x7f;
    }
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    let a = v.abs().min(448.0);
    // Steps are 2^-9 below 2^-6, and an eighth of the power of two above.
    let exponent = ((a.to_bits() >> 23) as i32 - 127).max(-6);
    let step = f32::from_bits(((exponent - 3 + 127) as u32) << 23);
    let steps = (a / step).round_ties_even() as u32;
    // Rounding up to the next power of two carries into the exponent by itself.
    let bits = (((exponent + 6) as u32) << 3) + steps;
    sign | bits as u8
}
