//! Floor 0: what the CPU can do, found at run time, and one lane trait that all kernels are written over.
//!
//! A kernel is a generic function over [`Simd`], marked `#[inline(always)]`; [`shells!`] instantiates it once per
//! instruction set inside a `#[target_feature]` function. Lane methods are unsafe because calling one outside such a
//! function is undefined on a CPU that lacks the instructions.

#[macro_use]
mod methods;

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
mod isa;
mod math;
mod matrix;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod scalar;
mod shells;
#[cfg(target_arch = "x86_64")]
pub mod vnni;

pub use isa::{Isa, UnknownIsa};
pub use math::{exp, sigmoid, tanh};
pub use matrix::instructions_without_kernels;

/// Vectors of [`Simd::N`] lanes of 32 bits, and the byte products of quantized kernels.
///
/// Bytes behind the pointers of methods: `4 N` of `load`, `store`, `load_f` and `store_f`; `2 N` of `load_f16`, `store_f16`,
/// `load_bf16`, `store_i16`, `pairs` and `widen_pairs`; `N` of `scale`, `load_e8m0`, `load_e4m3`, `load_e4m3_scale` and `store_i8`; 4 of
/// `splat4`, and 8 of each pointer of `dot_square`.
#[allow(missing_docs)] // names are the operations
pub trait Simd: Copy + Send + Sync + 'static {
    /// Lanes; also the rows of a panel of blocks.
    const N: usize;
    /// Rows of a batch that kernels take at once: as many as registers hold sums of. Bits do not depend on it.
    const AT_ONCE: usize;
    /// What [`Simd::dot_signed`] adds to every signed weight; kernels take `OFFSET * sum(x)` off again.
    const SIGNED_OFFSET: i32;
    /// Sums of byte products are int32 from the start, so that they never have to be widened in between.
    const WIDE_SUMS: bool;
    /// Tiles hold signed weights as two unsigned nibbles: two cheap products instead of one with a sign.
    ///
    /// Zen 4 sums 62 instead of 54 products of Q8_0 per nanosecond this way. Values and activations as int16 were tried
    /// too: 2 % faster for Q8_0, 5 % for IQ4_XS and 15 % for IQ2_S, but 3 % slower for the scores of attention.
    const SPLIT_SIGNED: bool;
    /// Tiles hold weights as [`Simd::square`] makes them, for [`Simd::dot_square`].
    const SQUARES: bool = false;
    /// N float32.
    type F: Copy;
    /// N int32, or 4N bytes.
    type I: Copy;
    /// Running sum of byte products, before it is widened.
    type Acc: Copy;
    /// One small integer factor per lane, as [`Simd::scaled`] wants it.
    type Scale: Copy;

    declare! { registers:
        fn splat(v: i32) -> Self::I;
        fn splat_byte(v: u8) -> Self::I;
        fn and(a: Self::I, b: Self::I) -> Self::I;
        fn or(a: Self::I, b: Self::I) -> Self::I;
        fn xor(a: Self::I, b: Self::I) -> Self::I;
        /// Shifts 16-bit pieces right; the caller masks what crosses a byte.
        fn shr<const K: i32>(a: Self::I) -> Self::I;
        /// Shifts 16-bit pieces left.
        fn shl<const K: i32>(a: Self::I) -> Self::I;
        /// Looks each byte (0 to 15) up in a table.
        fn lut(table: &[i8; 16], index: Self::I) -> Self::I;
        fn add_i(a: Self::I, b: Self::I) -> Self::I;
        fn sub_i(a: Self::I, b: Self::I) -> Self::I;
        fn mul_i(a: Self::I, b: Self::I) -> Self::I;
        fn to_f(a: Self::I) -> Self::F;
        fn acc() -> Self::Acc;
        /// The same sum, which the compiler has to have finished here: it keeps a kernel's order of work.
        ///
        /// Left to itself LLVM regroups unrolled sums column by column and then loads every weight once per column.
        fn settle(acc: Self::Acc) -> Self::Acc;
        /// Adds the products of four unsigned bytes `u` (at most 127) with four signed bytes `x` (at least -127) per lane.
        ///
        /// Sums of at most 32767 / (254 * max u) calls are exact everywhere; formats state how many they do.
        fn dot(acc: Self::Acc, u: Self::I, x: Self::I) -> Self::Acc;
        /// Brings signed bytes into the form that [`Simd::dot_signed`] reads.
        fn signed(w: Self::I) -> Self::I;
        /// As [`Simd::dot`] for weights that went through [`Simd::signed`].
        fn dot_signed(acc: Self::Acc, w: Self::I, x: Self::I) -> Self::Acc;
    }

    declare! { memory:
        fn load(p: *const u8) -> Self::I;
        fn store(p: *mut u8, v: Self::I);
        /// The four bytes at `p` in every lane.
        fn splat4(p: *const i8) -> Self::I;
    }
    methods! { registers:
        /// Brings two groups of four bytes per lane into the form that [`Simd::dot_square`] reads.
        fn square(w: [Self::I; 2]) -> [Self::I; 2] {
            w
        }
        /// The sums of each of the two rows of activations.
        fn columns(acc: [Self::Acc; 2]) -> [Self::Acc; 2] {
            acc
        }
    }

    methods! { memory:
        /// As four calls of [`Simd::dot`]: two groups of weights times two rows of activations, eight bytes at each `x`.
        ///
        /// Which sum is where is known to [`Simd::columns`] only.
        fn dot_square(acc: [Self::Acc; 2], w: [Self::I; 2], x: [*const i8; 2]) -> [Self::Acc; 2] {
            four_dots::<Self>(acc, w, x)
        }
    }

    declare! { registers:
        /// The sum as int32.
        fn sum(acc: Self::Acc) -> Self::I;
        /// The sum times a factor per lane, as int32.
        fn scaled(acc: Self::Acc, s: Self::Scale) -> Self::I;
        /// The same factor for all lanes.
        fn scale_splat(v: i16) -> Self::Scale;
        /// A factor times 16.
        fn scale_16(s: Self::Scale) -> Self::Scale;
        /// Dot product of int16 pairs.
        fn dot_pairs(a: Self::I, b: Self::I) -> Self::I;
        /// `acc` plus the dot product of int16 pairs.
        fn add_pairs(acc: Self::I, a: Self::I, b: Self::I) -> Self::I;
        fn zero() -> Self::F;
        fn splat_f(v: f32) -> Self::F;
        fn add(a: Self::F, b: Self::F) -> Self::F;
        fn sub(a: Self::F, b: Self::F) -> Self::F;
        fn mul(a: Self::F, b: Self::F) -> Self::F;
        fn div(a: Self::F, b: Self::F) -> Self::F;
        /// `a` where it is larger, else `b`: the second operand if one is NaN.
        fn max(a: Self::F, b: Self::F) -> Self::F;
        /// `a` where it is smaller, else `b`: the second operand if one is NaN.
        fn min(a: Self::F, b: Self::F) -> Self::F;
        fn abs(a: Self::F) -> Self::F;
        /// `a * b + c`, rounded once where the CPU can.
        fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
        /// To the nearest integer, ties to even.
        fn round(a: Self::F) -> Self::F;
        /// `2^n` for integral `n` from -126 to 127.
        fn exp2_int(n: Self::F) -> Self::F;
        /// Lanes added in a fixed order.
        fn reduce_add(a: Self::F) -> f32;
        /// Largest lane; NaN may be passed over.
        fn reduce_max(a: Self::F) -> f32;
        /// Hint that a line will be read soon; any address is fine.
        fn prefetch(p: *const u8);
    }

    declare! { memory:
        /// N signed bytes as factors.
        fn scale(p: *const i8) -> Self::Scale;
        /// Per lane the int16 pair of byte `p[lane]` and byte `p[N + lane]`.
        fn pairs(p: *const i8) -> Self::I;
        /// 2N signed bytes as int16, a pair per lane.
        fn widen_pairs(p: *const i8) -> Self::I;
        fn load_f(p: *const f32) -> Self::F;
        fn store_f(p: *mut f32, v: Self::F);
        fn load_f16(p: *const u16) -> Self::F;
        fn store_f16(p: *mut u16, v: Self::F);
        fn load_bf16(p: *const u16) -> Self::F;
        /// N bytes as powers of two `2^(b - 128)`: half the scale that e8m0 means.
        fn load_e8m0(p: *const u8) -> Self::F;
        /// N bytes as 8-bit floats of 4 exponent bits (e4m3fn).
        fn load_e4m3(p: *const u8) -> Self::F;
        /// As [`Simd::load_e4m3`], but NaN codes are read as 480, which scales of NVFP4 may be.
        fn load_e4m3_scale(p: *const u8) -> Self::F;
        /// Rounds to int32 (ties to even), cuts to int8 and writes N bytes; numbers beyond int32 and NaN give any byte.
        fn store_i8(p: *mut i8, v: Self::F);
        /// As [`Simd::store_i8`] for N int16.
        fn store_i16(p: *mut i16, v: Self::F);
    }
}

methods! { memory:
    /// [`Simd::dot_square`] without an instruction for it.
    fn four_dots<S: Simd>(mut acc: [S::Acc; 2], w: [S::I; 2], x: [*const i8; 2]) -> [S::Acc; 2] {
        for (acc, x) in acc.iter_mut().zip(x) {
            *acc = S::dot(*acc, w[0], S::splat4(x));
            *acc = S::dot(*acc, w[1], S::splat4(x.add(4)));
        }
        acc
    }
}
