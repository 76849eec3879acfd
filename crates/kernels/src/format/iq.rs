//! The codebook types. Their points are taken apart at load: a panel holds one small code per weight instead of an index
//! per four or eight, so that products never look into a codebook.
//!
//! | type | bits per weight in the file | in a panel |
//! |---|---|---|
//! | IQ1_S | 1.56 | 2.31 |
//! | IQ1_M | 1.75 | 3.56 |
//! | IQ2_XXS | 2.06 | 3.31 |
//! | IQ2_XS | 2.31 | 3.56 |
//! | IQ2_S | 2.56 | 3.56 |
//! | IQ3_XXS | 3.06 | 4.31 |
//! | IQ3_S | 3.44 | 4.31 |

use crate::{
    codes::{Bits2, Bits3, Bits4},
    super_block::{SuperFormat, Unpacked},
};
use lamina_quant::{self as stored, ShiftedPoint, ShiftedPoints, SignedPoint, SignedPoints};

/// IQ1_S.
pub struct Iq1S;
/// IQ1_M.
pub struct Iq1M;
/// IQ2_XXS.
pub struct Iq2Xxs;
/// IQ2_XS.
pub struct Iq2Xs;
/// IQ2_S.
pub struct Iq2S;
/// IQ3_XXS.
pub struct Iq3Xxs;
/// IQ3_S.
pub struct Iq3S;

/// Takes a block apart with one scale per `per` points; `code` turns a magnitude and its sign bit into a code.
#[inline(always)]
fn signed<B: SignedPoints>(block: &[u8], per: usize, out: &mut Unpacked, code: impl Fn(u8, u8) -> u8) {
    let block: &B = bytemuck::from_bytes(block);
    out.d = block.d().to_bits();
    for (k, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let SignedPoint { scale, magnitudes, signs } = block.point(k);
        out.scales[k / per] = (2 * scale + 1) as i8;
        for (i, (c, m)) in codes.iter_mut().zip(magnitudes).enumerate() {
            *c = code(m as u8, signs >> i & 1);
        }
    }
}

/// The levels 8, 25 and 43 are 0, 1 and 2 times 16 and some more; a set third bit is negative.
const IQ2_TABLE: [i8; 16] = [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
fn iq2_code(magnitude: u8, negative: u8) -> u8 {
    magnitude >> 4 | negative << 2
}

impl SuperFormat for Iq2Xxs {
    type Codes = Bits3;
    const BY_16: bool = false;
    /// Three would fit, but eight groups are no multiple of it.
    const ADDS: usize = 2;
    const TABLE: Option<[i8; 16]> = Some(IQ2_TABLE);
    const FACTOR: f32 = stored::BlockIQ2_XXS::UNIT;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        signed::<stored::BlockIQ2_XXS>(b, 4, out, iq2_code);
    }
}

impl SuperFormat for Iq2Xs {
    type Codes = Bits3;
    const BY_16: bool = true;
    /// Three would fit, but a scale covers four groups.
    const ADDS: usize = 2;
    const TABLE: Option<[i8; 16]> = Some(IQ2_TABLE);
    const FACTOR: f32 = stored::BlockIQ2_XS::UNIT;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        signed::<stored::BlockIQ2_XS>(b, 2, out, iq2_code);
    }
}

impl SuperFormat for Iq2S {
    type Codes = Bits3;
    const BY_16: bool = true;
    /// Three would fit, but a scale covers four groups.
    const ADDS: usize = 2;
    const TABLE: Option<[i8; 16]> = Some(IQ2_TABLE);
    const FACTOR: f32 = stored::BlockIQ2_S::UNIT;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        signed::<stored::BlockIQ2_S>(b, 2, out, iq2_code);
    }
}

impl SuperFormat for Iq3Xxs {
    type Codes = Bits4;
    const BY_16: bool = false;
    const ADDS: usize = 2;
    /// Level `l` is the one whose quotient by 8 is `l`; a set fourth bit is negative.
    const TABLE: Option<[i8; 16]> =
        Some([4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62]);
    const FACTOR: f32 = stored::BlockIQ3_XXS::UNIT;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        signed::<stored::BlockIQ3_XXS>(b, 4, out, |magnitude, negative| magnitude >> 3 | negative << 3);
    }
}

/// The values are the odd numbers from -15 to 15: `2 q - 15`, which needs no table.
impl SuperFormat for Iq3S {
    type Codes = Bits4;
    const BY_16: bool = false;
    const ADDS: usize = 8;
    const STEP: i32 = 2;
    const OFFSET: i32 = 15;
    const FACTOR: f32 = stored::BlockIQ3_S::UNIT;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        signed::<stored::BlockIQ3_S>(b, 4, out, |magnitude, negative| {
            (if negative == 0 { 15 + magnitude } else { 15 - magnitude }) >> 1
        });
    }
}

/// A shift down is a shift up of the negated block: with `q = 1 + point` or `q = 1 - point`, and a scale with that sign,
/// every value is `scale * (8 q - 7) / 8`.
impl SuperFormat for Iq1S {
    type Codes = Bits2;
    const BY_16: bool = false;
    const ADDS: usize = 8;
    const STEP: i32 = 8;
    const OFFSET: i32 = 7;
    const FACTOR: f32 = 0.125;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        let block: &stored::BlockIQ1_S = bytemuck::from_bytes(b);
        out.d = ShiftedPoints::d(block).to_bits();
        for (k, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let ShiftedPoint { scale, point, down } = block.point(k);
            let sign = if down { -1 } else { 1 };
            out.scales[k / 4] = sign * (2 * scale + 1) as i8;
            codes.iter_mut().zip(point).for_each(|(c, p)| *c = (1 + sign * p) as u8);
        }
    }
}

/// Two points with shifts of their own share a scale: six values, here times 8.
impl SuperFormat for Iq1M {
    type Codes = Bits3;
    const BY_16: bool = true;
    const ADDS: usize = 4;
    const TABLE: Option<[i8; 16]> = Some([-9, -7, -1, 1, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    const FACTOR: f32 = 0.125;

    #[inline(always)]
    fn unpack(b: &[u8], out: &mut Unpacked) {
        let block: &stored::BlockIQ1_M = bytemuck::from_bytes(b);
        out.d = block.d().to_bits();
        for (k, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let ShiftedPoint { scale, point, down } = block.point(k);
            out.scales[k / 2] = (2 * scale + 1) as i8;
            let up = u8::from(!down);
            codes.iter_mut().zip(point).for_each(|(c, p)| *c = 2 * (p + 1) as u8 + up);
        }
    }
}
