//! The 4-bit float e2m1 of MXFP4 and NVFP4, as twice its value.

use crate::search::sum;

/// Twice the values of the sixteen codes: a sign bit above two bits of exponent and one of mantissa.
pub(super) const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(super) static VALUES_F32: [f32; 16] = {
    let (mut values, mut i) = ([0.0; 16], 0);
    while i < 16 {
        values[i] = VALUES[i] as f32;
        i += 1;
    }
    values
};

/// Code of the value nearest to `x` among `d * VALUES`; of two, the smaller magnitude. Zero never gets a sign.
#[inline(always)]
pub(super) fn code(x: f32, d: f32) -> u8 {
    const BORDERS: [f32; 7] = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0];
    let magnitude = BORDERS.iter().map(|b| u8::from(x.abs() > d * b)).sum::<u8>();
    magnitude | u8::from(x < 0.0 && magnitude > 0) << 3
}

/// Weighted squared error of `x` rounded at the scale `d`.
pub(super) fn error<const N: usize>(x: &[f32; N], importance: Option<&[f32; N]>, d: f32) -> f32 {
    let [e] = sum::<N, 1>(|i| {
        let e = x[i] - d * VALUES_F32[usize::from(code(x[i], d))];
        [importance.map_or(1.0, |w| w[i]) * e * e]
    });
    e
}
