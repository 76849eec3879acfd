//! Transcendental functions over lanes, with a stated error.

use crate::Simd;

/// `e^x`, relative error below 2e-7 for x from -87.3 to 88; below -87.7 it is 0, above 88 `e^88`, and NaN gives NaN.
///
/// Cody-Waite reduction by ln 2 and a polynomial of degree 6 (Taylor with a tail fitted on [-ln2/2, ln2/2]).
///
/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    const COEFFS: [f32; 6] = [1.388_888_9e-3, 8.333_334e-3, 4.166_666_8e-2, 0.166_666_67, 0.5, 1.0];
    // SAFETY: lane operations on registers alone, whose instructions the caller promises.
    unsafe {
        // The least exponent, -127, makes the factor below 0, which keeps masked scores out of sums exactly. Of a NaN,
        // minimum and maximum keep the second operand.
        let cut = S::min(S::splat_f(88.0), S::max(S::splat_f(-127.0 * std::f32::consts::LN_2), x));
        let n = S::round(S::mul(cut, S::splat_f(std::f32::consts::LOG2_E)));
        let r = S::fma(n, S::splat_f(-0.693_359_4), cut);
        let r = S::fma(n, S::splat_f(2.121_944_4e-4), r);
        let mut p = S::splat_f(1.984_127e-4);
        for c in COEFFS {
            p = S::fma(p, r, S::splat_f(c));
        }
        let p = S::fma(p, r, S::splat_f(1.0));
        S::mul(p, S::exp2_int(n))
    }
}

/// `1 / (1 + e^-x)`, relative error below 4e-7 for x above -87; never below `e^-88`.
///
/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::F) -> S::F {
    // SAFETY: lane operations on registers alone, whose instructions the caller promises.
    unsafe {
        let one = S::splat_f(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::zero(), x))))
    }
}

/// `tanh x` as `1 - 2 / (e^2x + 1)`: absolute error below 2.5e-7.
///
/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::F) -> S::F {
    // SAFETY: lane operations on registers alone, whose instructions the caller promises.
    unsafe {
        let one = S::splat_f(1.0);
        let e = exp::<S>(S::add(x, x));
        S::sub(one, S::div(S::splat_f(2.0), S::add(e, one)))
    }
}
