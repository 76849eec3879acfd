//! Lanes of 256 bits: 8 of them, with AVX2, FMA and F16C.

use crate::Simd;
use std::{
    arch::{asm, x86_64::*},
    marker::PhantomData,
};

/// AVX2, FMA and F16C with products of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<P>(PhantomData<P>);

/// AVX2, FMA and F16C without more.
pub type Avx2 = Lanes<Maddubs>;

methods! { memory:
    /// Signs, and all other bits, of eight e4m3 at their places in float16, whose bias is 8 larger.
    fn e4m3_parts(p: *const u8) -> (__m128i, __m128i) {
        let b = _mm_cvtepu8_epi16(_mm_loadl_epi64(p.cast()));
        let sign = _mm_slli_epi16::<8>(_mm_and_si128(b, _mm_set1_epi16(0x80)));
        (sign, _mm_slli_epi16::<7>(_mm_and_si128(b, _mm_set1_epi16(0x7f))))
    }
}

methods! { registers:
    /// The numbers of [`e4m3_parts`].
    fn e4m3_number(sign: __m128i, rest: __m128i) -> __m256 {
        _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, rest)), _mm256_set1_ps(256.0))
    }
}

/// How the products of four bytes per lane are summed, and what follows from it.
#[allow(missing_docs)] // names are those of `Simd`
pub trait Products: Copy + Send + Sync + 'static {
    const SIGNED_OFFSET: i32;
    const WIDE_SUMS: bool;
    const SPLIT_SIGNED: bool;
    declare! { registers:
        fn settle(acc: __m256i) -> __m256i;
        fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i;
        fn signed(w: __m256i) -> __m256i;
        fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i;
        fn sum(acc: __m256i) -> __m256i;
        fn scaled(acc: __m256i, s: __m256i) -> __m256i;
        fn scale_splat(v: i16) -> __m256i;
        fn scale_16(s: __m256i) -> __m256i;
        fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i;
    }

    declare! { memory:
        fn scale(p: *const i8) -> __m256i;
    }
}

/// Products summed to int16, two sums per lane; factors are there twice per lane, as int16.
#[derive(Clone, Copy, Debug)]
pub struct Maddubs;

/// Inline assembly that asks for a vector register needs the feature on its own function.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn settle(mut acc: __m256i) -> __m256i {
    // SAFETY: an empty instruction that reads and writes one register.
    unsafe { asm!("/* {0} */", inout(ymm_reg) acc, options(nomem, nostack, preserves_flags)) };
    acc
}

impl Products for Maddubs {
    const SIGNED_OFFSET: i32 = 0;
    const WIDE_SUMS: bool = false;
    const SPLIT_SIGNED: bool = true;

    methods! { registers:
        fn settle(acc: __m256i) -> __m256i {
            settle(acc)
        }
        fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
            _mm256_add_epi16(acc, _mm256_maddubs_epi16(u, x))
        }
        fn signed(w: __m256i) -> __m256i {
            w
        }
        fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
            _mm256_add_epi16(acc, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)))
        }
        fn sum(acc: __m256i) -> __m256i {
            _mm256_madd_epi16(acc, _mm256_set1_epi16(1))
        }
        fn scaled(acc: __m256i, s: __m256i) -> __m256i {
            _mm256_madd_epi16(acc, s)
        }
        fn scale_splat(v: i16) -> __m256i {
            _mm256_set1_epi16(v)
        }
        fn scale_16(s: __m256i) -> __m256i {
            _mm256_slli_epi16::<4>(s)
        }
        fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
        }
    }

    methods! { memory:
        fn scale(p: *const i8) -> __m256i {
            let b = _mm_loadl_epi64(p.cast());
            _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(b, b))
        }
    }
}

impl<P: Products> Simd for Lanes<P> {
    const N: usize = 8;
    const AT_ONCE: usize = 4;
    const SIGNED_OFFSET: i32 = P::SIGNED_OFFSET;
    const WIDE_SUMS: bool = P::WIDE_SUMS;
    const SPLIT_SIGNED: bool = P::SPLIT_SIGNED;
    type F = __m256;
    type I = __m256i;
    type Acc = __m256i;
    type Scale = __m256i;

    methods! { registers:
        fn splat(v: i32) -> __m256i {
            _mm256_set1_epi32(v)
        }
        fn splat_byte(v: u8) -> __m256i {
            _mm256_set1_epi8(v as i8)
        }
        fn and(a: __m256i, b: __m256i) -> __m256i {
            _mm256_and_si256(a, b)
        }
        fn or(a: __m256i, b: __m256i) -> __m256i {
            _mm256_or_si256(a, b)
        }
        fn xor(a: __m256i, b: __m256i) -> __m256i {
            _mm256_xor_si256(a, b)
        }
        fn shr<const K: i32>(a: __m256i) -> __m256i {
            _mm256_srli_epi16::<K>(a)
        }
        fn shl<const K: i32>(a: __m256i) -> __m256i {
            _mm256_slli_epi16::<K>(a)
        }
        fn lut(table: &[i8; 16], index: __m256i) -> __m256i {
            let t = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(t, index)
        }
        fn add_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi32(a, b)
        }
        fn sub_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_sub_epi32(a, b)
        }
        fn mul_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_mullo_epi32(a, b)
        }
        fn to_f(a: __m256i) -> __m256 {
            _mm256_cvtepi32_ps(a)
        }
        fn acc() -> __m256i {
            _mm256_setzero_si256()
        }
        fn settle(acc: __m256i) -> __m256i {
            P::settle(acc)
        }
        fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
            P::dot(acc, u, x)
        }
        fn signed(w: __m256i) -> __m256i {
            P::signed(w)
        }
        fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
            P::dot_signed(acc, w, x)
        }
        fn sum(acc: __m256i) -> __m256i {
            P::sum(acc)
        }
        fn scaled(acc: __m256i, s: __m256i) -> __m256i {
            P::scaled(acc, s)
        }
        fn scale_splat(v: i16) -> __m256i {
            P::scale_splat(v)
        }
        fn scale_16(s: __m256i) -> __m256i {
            P::scale_16(s)
        }
        fn dot_pairs(a: __m256i, b: __m256i) -> __m256i {
            _mm256_madd_epi16(a, b)
        }
        fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
            P::add_pairs(acc, a, b)
        }
        fn zero() -> __m256 {
            _mm256_setzero_ps()
        }
        fn splat_f(v: f32) -> __m256 {
            _mm256_set1_ps(v)
        }
        fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        fn sub(a: __m256, b: __m256) -> __m256 {
            _mm256_sub_ps(a, b)
        }
        fn mul(a: __m256, b: __m256) -> __m256 {
            _mm256_mul_ps(a, b)
        }
        fn div(a: __m256, b: __m256) -> __m256 {
            _mm256_div_ps(a, b)
        }
        fn max(a: __m256, b: __m256) -> __m256 {
            _mm256_max_ps(a, b)
        }
        fn min(a: __m256, b: __m256) -> __m256 {
            _mm256_min_ps(a, b)
        }
        fn abs(a: __m256) -> __m256 {
            _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
        }
        fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        fn round(a: __m256) -> __m256 {
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
        }
        fn exp2_int(n: __m256) -> __m256 {
            let e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(e))
        }
        fn reduce_add(a: __m256) -> f32 {
            let s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
            _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)))
        }
        fn reduce_max(a: __m256) -> f32 {
            let s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let s = _mm_max_ps(s, _mm_movehl_ps(s, s));
            _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)))
        }
        fn prefetch(p: *const u8) {
            _mm_prefetch::<_MM_HINT_T0>(p.cast())
        }
    }

    methods! { memory:
        fn load(p: *const u8) -> __m256i {
            _mm256_loadu_si256(p.cast())
        }
        fn store(p: *mut u8, v: __m256i) {
            _mm256_storeu_si256(p.cast(), v)
        }
        fn splat4(p: *const i8) -> __m256i {
            _mm256_set1_epi32(p.cast::<i32>().read_unaligned())
        }
        fn scale(p: *const i8) -> __m256i {
            P::scale(p)
        }
        fn pairs(p: *const i8) -> __m256i {
            let (a, b) = (_mm_loadl_epi64(p.cast()), _mm_loadl_epi64(p.add(8).cast()));
            _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b))
        }
        fn widen_pairs(p: *const i8) -> __m256i {
            _mm256_cvtepi8_epi16(_mm_loadu_si128(p.cast()))
        }
        fn load_f(p: *const f32) -> __m256 {
            _mm256_loadu_ps(p)
        }
        fn store_f(p: *mut f32, v: __m256) {
            _mm256_storeu_ps(p, v)
        }
        fn load_f16(p: *const u16) -> __m256 {
            _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
        }
        fn store_f16(p: *mut u16, v: __m256) {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
        }
        fn load_bf16(p: *const u16) -> __m256 {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
        }
        fn load_e8m0(p: *const u8) -> __m256 {
            let e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
            // The two smallest are denormal: a single bit below the exponent field.
            let denormal = _mm256_sllv_epi32(_mm256_set1_epi32(1 << 21), e);
            let small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
            _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, small))
        }
        fn load_e4m3(p: *const u8) -> __m256 {
            let (sign, rest) = e4m3_parts(p);
            // All lower bits of the NaN code, at their new place; its upper exponent bit makes a NaN of float16.
            let nan = _mm_cmpeq_epi16(rest, _mm_set1_epi16(0x7f << 7));
            let rest = _mm_or_si128(rest, _mm_and_si128(nan, _mm_set1_epi16(0x4000)));
            e4m3_number(sign, rest)
        }
        fn load_e4m3_scale(p: *const u8) -> __m256 {
            let (sign, rest) = e4m3_parts(p);
            e4m3_number(sign, rest)
        }
        fn store_i8(p: *mut i8, v: __m256) {
            let i = _mm256_cvtps_epi32(v);
            let w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256::<1>(i));
            _mm_storel_epi64(p.cast(), _mm_packs_epi16(w, w));
        }
        fn store_i16(p: *mut i16, v: __m256) {
            let i = _mm256_cvtps_epi32(v);
            let w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256::<1>(i));
            _mm_storeu_si128(p.cast(), w);
        }
    }
}
