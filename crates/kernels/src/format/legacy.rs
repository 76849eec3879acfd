//! Types with a float scale per 32: the first GGUF types, IQ4_NL and MXFP4. Layouts: `lamina_quant`.

use super::nibbles;
use crate::{
    block::{BlockPanels, ScaleForm},
    codes::{Bits4, Bits5, Bits8},
};
use lamina_quant as stored;

/// Q4_0.
pub struct Q40;
/// Q4_1.
pub struct Q41;
/// Q5_0.
pub struct Q50;
/// Q5_1.
pub struct Q51;
/// Q8_0.
pub struct Q80;
/// IQ4_NL.
pub struct Iq4Nl;
/// MXFP4.
pub struct Mxfp4;

fn le16(b: &[u8]) -> u16 {
    u16::from_le_bytes([b[0], b[1]])
}

/// Adds the fifth bits to 32 nibbles.
fn fifth_bits(b: &[u8], codes: &mut [u8; 32]) {
    let bits = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    for (i, c) in codes.iter_mut().enumerate() {
        *c |= ((bits >> i & 1) << 4) as u8;
    }
}

impl BlockPanels for Q40 {
    type Codes = Bits4;
    const ADDS: usize = 8;
    const OFFSET: i32 = 8;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[2..18], codes);
        (le16(b), 0)
    }
}

impl BlockPanels for Q41 {
    type Codes = Bits4;
    const ADDS: usize = 8;
    const MINS: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[4..20], codes);
        (le16(b), le16(&b[2..]))
    }
}

impl BlockPanels for Q50 {
    type Codes = Bits5;
    const ADDS: usize = 4;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[6..22], codes);
        fifth_bits(&b[2..6], codes);
        (le16(b), 0)
    }
}

impl BlockPanels for Q51 {
    type Codes = Bits5;
    const ADDS: usize = 4;
    const MINS: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[8..24], codes);
        fifth_bits(&b[4..8], codes);
        (le16(b), le16(&b[2..]))
    }
}

impl BlockPanels for Q80 {
    type Codes = Bits8;
    const ADDS: usize = 1;
    const SIGNED: bool = true;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        codes.copy_from_slice(&b[2..34]);
        (le16(b), 0)
    }
}

impl BlockPanels for Iq4Nl {
    type Codes = Bits4;
    const ADDS: usize = 1;
    const TABLE: Option<[i8; 16]> = Some(stored::BlockIQ4_NL::VALUES);

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[2..18], codes);
        (le16(b), 0)
    }
}

impl BlockPanels for Mxfp4 {
    type Codes = Bits4;
    /// The largest value is 12: ten products fit, and a block has eight.
    const ADDS: usize = 8;
    const TABLE: Option<[i8; 16]> = Some(stored::BlockMXFP4::VALUES);
    const SCALE: ScaleForm = ScaleForm::HalfE8M0;

    #[inline(always)]
    fn unpack(b: &[u8], _: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        nibbles(&b[1..17], codes);
        (u16::from(b[0]), 0)
    }
}
