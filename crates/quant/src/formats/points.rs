//! What the codebook types share: eight neighbours at a time come from points of a codebook, with one scale.

use super::grids;
use crate::{BlockFormat, F16Le, search::SHIFT};

/// Eight neighbours of a [`SignedPoints`] block: `d * UNIT * (2 scale + 1) * magnitude`, negative where a bit of `signs`
/// is set.
pub struct SignedPoint {
    /// Scale, 0 to 15.
    pub scale: u8,
    /// Levels of the codebook.
    pub magnitudes: [i8; 8],
    /// A set bit `i` makes element `i` negative.
    pub signs: u8,
}

/// A block of 256 magnitudes with signs: the IQ2 and IQ3 types.
pub trait SignedPoints: BlockFormat<Values = [f32; 256]> {
    /// Factor of the scales.
    const UNIT: f32;

    /// Scale of the scales.
    fn d(&self) -> F16Le;

    /// Elements `8 k` to `8 k + 7`; `k` is below 32.
    fn point(&self, k: usize) -> SignedPoint;
}

/// Eight neighbours of a [`ShiftedPoints`] block: `d * (2 scale + 1) * (point + 1/8)`, or `- 1/8`.
pub struct ShiftedPoint {
    /// Scale, 0 to 7.
    pub scale: u8,
    /// Values -1, 0 and 1.
    pub point: &'static [i8; 8],
    /// The shift is down.
    pub down: bool,
}

/// A block of 256 ternary values with a shift: the IQ1 types.
pub trait ShiftedPoints: BlockFormat<Values = [f32; 256]> {
    /// Scale of the scales.
    fn d(&self) -> F16Le;

    /// Elements `8 k` to `8 k + 7`; `k` is below 32.
    fn point(&self, k: usize) -> ShiftedPoint;
}

#[inline(always)]
pub(super) fn decode_signed<B: SignedPoints>(block: &B, out: &mut [f32; 256]) {
    let d = block.d().to_f32();
    for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let SignedPoint { scale, magnitudes, signs } = block.point(k);
        // Exact: eleven bits times five, times a power of two.
        grids::signed(d * (0.5 + f32::from(scale)) * (2.0 * B::UNIT), &magnitudes, signs, out);
    }
}

#[inline(always)]
pub(super) fn decode_shifted<B: ShiftedPoints>(block: &B, out: &mut [f32; 256]) {
    let d = block.d().to_f32();
    for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let ShiftedPoint { scale, point, down } = block.point(k);
        let (scale, shift) = (d * f32::from(2 * scale + 1), if down { -SHIFT } else { SHIFT });
        out.iter_mut().zip(point).for_each(|(o, p)| *o = scale * (f32::from(*p) + shift));
    }
}
