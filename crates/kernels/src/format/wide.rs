//! Types whose stored blocks are longer than the 32 columns of a panel block: NVFP4 (4.5 bits per weight, as in the file)
//! and Q1_0 (1.5 bits; 1.13 in the file, where 128 columns share a scale).

use super::nibbles;
use crate::{
    block::{BlockPanels, ScaleForm},
    codes::{Bits1, Bits4},
};
use lamina_quant as stored;

/// NVFP4.
pub struct Nvfp4;
/// Q1_0.
pub struct Q10;

/// The scale byte whose e4m3 value is what the format means: the sign does not count, and of the two NaN patterns one is
/// zero and the other 480.
fn plain_scale(d: u8) -> u8 {
    match d {
        0x7F => 0,
        0xFF => 0x7F,
        d => d & 0x7F,
    }
}

impl BlockPanels for Nvfp4 {
    type Codes = Bits4;
    /// The largest value is 12: ten products fit, and a half block has four.
    const ADDS: usize = 8;
    const TABLE: Option<[i8; 16]> = Some(stored::BlockNVFP4::VALUES);
    const SCALE: ScaleForm = ScaleForm::TwoHalfE4M3;
    const PARTS: usize = 2;

    #[inline(always)]
    fn unpack(b: &[u8], part: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        let block: &stored::BlockNVFP4 = bytemuck::from_bytes(b);
        let halves = block.qs[16 * part..16 * part + 16].chunks_exact(8);
        halves.zip(codes.chunks_exact_mut(16)).for_each(|(q, c)| nibbles(q, c));
        (u16::from_le_bytes([block.d[2 * part], block.d[2 * part + 1]].map(plain_scale)), 0)
    }
}

impl BlockPanels for Q10 {
    type Codes = Bits1;
    const ADDS: usize = 8;
    const STEP: i32 = 2;
    const OFFSET: i32 = 1;
    const PARTS: usize = 4;

    #[inline(always)]
    fn unpack(b: &[u8], part: usize, codes: &mut [u8; 32]) -> (u16, u16) {
        let block: &stored::BlockQ1_0 = bytemuck::from_bytes(b);
        for (i, c) in codes.iter_mut().enumerate() {
            *c = block.qs[4 * part + i / 8] >> (i % 8) & 1;
        }
        (block.d.to_bits(), 0)
    }
}
