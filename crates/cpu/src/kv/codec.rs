//! How one type of keys and one of values is written, and which kernels read it.

use crate::{
    act::{Act32, act32_kernel},
    format::{self, Kernels},
    kernel::{
        attend::{self, PanelMix},
        float::{self, FloatFormat},
        mix::{self, BlockValues, Mix},
    },
};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use lamina_plan::{KvType, KvTypes, PAGE_LEN};
use lamina_simd::Isa;

/// How the keys and values of a layer group are stored and read.
#[derive(Clone, Copy)]
pub struct Codec {
    /// Kernels of key pages.
    pub keys: Kernels,
    /// How values are stored.
    pub values: Values,
    /// Weights times latents, which are read out of key pages.
    mix_latents: unsafe fn(&PanelMix<'_>),
    pub(super) types: KvTypes,
    quantize: unsafe fn(*const f32, usize, *mut Act32, usize),
}

/// How a page of values is written and read.
#[derive(Clone, Copy)]
pub struct Values {
    /// Weights times values of a chunk.
    mix: unsafe fn(&Mix<'_>),
    /// Bytes of a page of values of a width.
    pub page_bytes: fn(usize) -> usize,
    /// Writes an encoded row to a position of a page of values of a width.
    pub put: fn(&[u8], usize, usize, &mut [u8]),
}

impl Values {
    /// Weights times values of a chunk.
    ///
    /// # Panics
    /// When a page has fewer bytes than values of its width take.
    pub fn mix(&self, m: &Mix<'_>) {
        let (bytes, dim) = m.page();
        assert!(bytes >= (self.page_bytes)(dim), "too few values");
        // SAFETY: `Codec::new` takes the kernel of an instruction set that `format::kernels` has seen to be there, and pages
        // were just compared with what this type's kernel reads.
        unsafe { (self.mix)(m) };
    }

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
            KvType::Q8_0 => Values::blocks::<mix::Q8Values>(isa),
            KvType::Q4_0 => Values::blocks::<mix::Q4Values>(isa),
            KvType::Q4_1 => Values::blocks::<mix::Q41Values>(isa),
        };
        let keys = format::kernels(types.k.dtype(), isa).expect("every cache type has kernels");
        let mix_latents = attend::mix_panel(isa, types.k);
        Codec { keys, values, mix_latents, types, quantize: act32_kernel(isa) }
    }

    /// Weights times latents of a chunk, which are kept as plain numbers.
    pub fn mix_latents(&self, m: &PanelMix<'_>) {
        // SAFETY: `format::kernels` has seen in `new` that the instruction set is there, and `PanelMix::new` that the pages
        // hold the columns.
        unsafe { (self.mix_latents)(m) };
    }

    /// Width of stored keys: whole blocks.
    pub fn key_dim(&self, dim: usize) -> usize {
        dim.next_multiple_of(self.keys.act.block())
    }

    /// Bytes of one number of a key that is kept as a plain number.
    pub fn key_bytes(&self) -> usize {
        self.keys.block_bytes / self.keys.rows
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
    pub(super) fn encode(&self, kv_type: KvType, x: &[f32], width: usize, out: &mut Vec<u8>) {
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

#[cfg(test)]
mod tests;
