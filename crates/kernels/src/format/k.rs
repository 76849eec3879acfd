//! The K types and IQ4_XS: super-blocks of 256 with integer scales. Layouts: `lamina_quant`.

use super::nibbles;
use crate::{
    codes::{Bits2, Bits3, Bits4, Bits5, Bits6},
    super_block::{SuperFormat, Unpacked},
};
use lamina_quant as stored;

/// Q2_K.
pub struct Q2K;
/// Q3_K.
pub struct Q3K;
/// Q4_K.
pub struct Q4K;
/// Q5_K.
pub struct Q5K;
/// Q6_K.
pub struct Q6K;
/// IQ4_XS.
pub struct Iq4Xs;

fn le16(b: &[u8]) -> u16 {
    u16::from_le_bytes([b[0], b[1]])
}

/// Eight 6-bit scales and eight 6-bit minimums in twelve bytes (Q4_K, Q5_K).
fn scales_and_mins(s: &[u8], out: &mut Unpacked) {
    for j in 0..4 {
        out.scales[j] = (s[j] & 63) as i8;
        out.mins[j] = (s[j + 4] & 63) as i8;
        out.scales[j + 4] = (s[j + 8] & 15 | s[j] >> 6 << 4) as i8;
        out.mins[j + 4] = (s[j + 8] >> 4 | s[j + 4] >> 6 << 4) as i8;
    }
}

/// Four times 32 low nibbles and 32 high ones.
fn nibbles_64(qs: &[u8], codes: &mut [u8; 256]) {
    for (q, c) in qs.chunks_exact(32).zip(codes.chunks_exact_mut(64)) {
        nibbles(q, c);
    }
}

impl SuperFormat for Q4K {
    type Codes = Bits4;
    const BY_16: bool = false;
    const ADDS: usize = 8;
    const MINS: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        (out.d, out.dmin) = (le16(b), le16(&b[2..]));
        scales_and_mins(&b[4..16], out);
        nibbles_64(&b[16..144], &mut out.codes);
    }
}

impl SuperFormat for Q5K {
    type Codes = Bits5;
    const BY_16: bool = false;
    const ADDS: usize = 4;
    const MINS: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        (out.d, out.dmin) = (le16(b), le16(&b[2..]));
        scales_and_mins(&b[4..16], out);
        nibbles_64(&b[48..176], &mut out.codes);
        let high: &[u8; 32] = b[16..48].try_into().expect("32 bytes");
        for (j, c) in out.codes.chunks_exact_mut(32).enumerate() {
            for (c, h) in c.iter_mut().zip(high) {
                *c |= (h >> j & 1) << 4;
            }
        }
    }
}

impl SuperFormat for Q6K {
    type Codes = Bits6;
    const BY_16: bool = true;
    const ADDS: usize = 2;
    const OFFSET: i32 = 32;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        out.d = le16(&b[208..]);
        for (s, &v) in out.scales.iter_mut().zip(&b[192..208]) {
            *s = v as i8;
        }
        for half in 0..2 {
            let (low, high) = (&b[64 * half..64 * half + 64], &b[128 + 32 * half..160 + 32 * half]);
            let codes = &mut out.codes[128 * half..128 * half + 128];
            for l in 0..32 {
                codes[l] = low[l] & 15 | (high[l] & 3) << 4;
                codes[l + 32] = low[l + 32] & 15 | (high[l] >> 2 & 3) << 4;
                codes[l + 64] = low[l] >> 4 | (high[l] >> 4 & 3) << 4;
                codes[l + 96] = low[l + 32] >> 4 | high[l] >> 6 << 4;
            }
        }
    }
}

/// Two bits of each of 64 bytes, in four planes per half.
fn two_bits(qs: &[u8], codes: &mut [u8; 256]) {
    for (i, c) in codes.chunks_exact_mut(32).enumerate() {
        let q = &qs[i / 4 * 32..i / 4 * 32 + 32];
        for (c, q) in c.iter_mut().zip(q) {
            *c = q >> (2 * (i % 4)) & 3;
        }
    }
}

impl SuperFormat for Q2K {
    type Codes = Bits2;
    const BY_16: bool = true;
    const ADDS: usize = 4;
    const MINS: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        (out.d, out.dmin) = (le16(&b[80..]), le16(&b[82..]));
        for (j, s) in b[..16].iter().enumerate() {
            (out.scales[j], out.mins[j]) = ((s & 15) as i8, (s >> 4) as i8);
        }
        two_bits(&b[16..80], &mut out.codes);
    }
}

impl SuperFormat for Q3K {
    type Codes = Bits3;
    const BY_16: bool = true;
    const ADDS: usize = 4;
    const OFFSET: i32 = 4;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        out.d = le16(&b[108..]);
        let s = &b[96..108];
        for i in 0..16 {
            let low = if i < 8 { s[i] & 15 } else { s[i - 8] >> 4 };
            out.scales[i] = (low | (s[8 + i % 4] >> (2 * (i / 4)) & 3) << 4) as i8 - 32;
        }
        two_bits(&b[32..96], &mut out.codes);
        for (i, c) in out.codes.chunks_exact_mut(32).enumerate() {
            for (c, h) in c.iter_mut().zip(&b[..32]) {
                *c |= (h >> i & 1) << 2;
            }
        }
    }
}

impl SuperFormat for Iq4Xs {
    type Codes = Bits4;
    const BY_16: bool = false;
    const ADDS: usize = 1;
    const TABLE: Option<[i8; 16]> = Some(stored::BlockIQ4_NL::VALUES);

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        out.d = le16(b);
        let high = le16(&b[2..]);
        for j in 0..8 {
            let low = b[4 + j / 2] >> (4 * (j % 2)) & 15;
            out.scales[j] = (low | ((high >> (2 * j) & 3) << 4) as u8) as i8 - 32;
        }
        for (q, c) in b[8..136].chunks_exact(16).zip(out.codes.chunks_exact_mut(32)) {
            nibbles(q, c);
        }
    }
}
