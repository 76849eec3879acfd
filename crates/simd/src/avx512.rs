//! Lanes of AVX-512 with VNNI: 16 of them, byte products summed straight into int32.

use crate::Simd;
use std::arch::{asm, x86_64::*};

/// AVX-512 F, BW, VL, DQ and VNNI.
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

/// Inline assembly that asks for a vector register needs the feature on its own function.
#[inline]
#[target_feature(enable = "avx512f")]
fn settle(mut acc: __m512i) -> __m512i {
    // SAFETY: an empty instruction that reads and writes one register.
    unsafe { asm!("/* {0} */", inout(zmm_reg) acc, options(nomem, nostack, preserves_flags)) };
    acc
}

/// Left to itself LLVM takes chains of this instruction apart again.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_pairs(mut acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: one instruction of AVX-512 VNNI on registers.
    unsafe {
        asm!("vpdpwssd {0}, {1}, {2}", inout(zmm_reg) acc, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags))
    };
    acc
}

methods! { memory:
    /// Signs, and all other bits, of 16 e4m3 at their places in float16, whose bias is 8 larger.
    fn e4m3_parts(p: *const u8) -> (__m256i, __m256i) {
        let b = _mm256_cvtepu8_epi16(_mm_loadu_si128(p.cast()));
        let sign = _mm256_slli_epi16::<8>(_mm256_and_si256(b, _mm256_set1_epi16(0x80)));
        (sign, _mm256_slli_epi16::<7>(_mm256_and_si256(b, _mm256_set1_epi16(0x7f))))
    }
}

methods! { registers:
    /// The numbers of [`e4m3_parts`].
    fn e4m3_number(sign: __m256i, rest: __m256i) -> __m512 {
        _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(sign, rest)), _mm512_set1_ps(256.0))
    }
}

impl Simd for Avx512 {
    const N: usize = 16;
    const AT_ONCE: usize = 8;
    const SIGNED_OFFSET: i32 = 128;
    const WIDE_SUMS: bool = true;
    const SPLIT_SIGNED: bool = false;
    type F = __m512;
    type I = __m512i;
    type Acc = __m512i; // 16 int32
    type Scale = __m512i; // 16 int32

    methods! { registers:
        fn splat(v: i32) -> __m512i {
            _mm512_set1_epi32(v)
        }
        fn splat_byte(v: u8) -> __m512i {
            _mm512_set1_epi8(v as i8)
        }
        fn and(a: __m512i, b: __m512i) -> __m512i {
            _mm512_and_si512(a, b)
        }
        fn or(a: __m512i, b: __m512i) -> __m512i {
            _mm512_or_si512(a, b)
        }
        fn xor(a: __m512i, b: __m512i) -> __m512i {
            _mm512_xor_si512(a, b)
        }
        fn shr<const K: i32>(a: __m512i) -> __m512i {
            _mm512_srl_epi16(a, _mm_cvtsi32_si128(K))
        }
        fn shl<const K: i32>(a: __m512i) -> __m512i {
            _mm512_sll_epi16(a, _mm_cvtsi32_si128(K))
        }
        fn lut(table: &[i8; 16], index: __m512i) -> __m512i {
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), index)
        }
        fn add_i(a: __m512i, b: __m512i) -> __m512i {
            _mm512_add_epi32(a, b)
        }
        fn sub_i(a: __m512i, b: __m512i) -> __m512i {
            _mm512_sub_epi32(a, b)
        }
        fn mul_i(a: __m512i, b: __m512i) -> __m512i {
            _mm512_mullo_epi32(a, b)
        }
        fn to_f(a: __m512i) -> __m512 {
            _mm512_cvtepi32_ps(a)
        }
        fn acc() -> __m512i {
            _mm512_setzero_si512()
        }
        fn settle(acc: __m512i) -> __m512i {
            settle(acc)
        }
        fn dot(acc: __m512i, u: __m512i, x: __m512i) -> __m512i {
            _mm512_dpbusd_epi32(acc, u, x)
        }
        fn signed(w: __m512i) -> __m512i {
            _mm512_xor_si512(w, _mm512_set1_epi8(-128))
        }
        fn dot_signed(acc: __m512i, w: __m512i, x: __m512i) -> __m512i {
            _mm512_dpbusd_epi32(acc, w, x)
        }
        fn sum(acc: __m512i) -> __m512i {
            acc
        }
        fn scaled(acc: __m512i, s: __m512i) -> __m512i {
            _mm512_mullo_epi32(acc, s)
        }
        fn scale_splat(v: i16) -> __m512i {
            _mm512_set1_epi32(i32::from(v))
        }
        fn scale_16(s: __m512i) -> __m512i {
            _mm512_slli_epi32::<4>(s)
        }
        fn dot_pairs(a: __m512i, b: __m512i) -> __m512i {
            _mm512_madd_epi16(a, b)
        }
        fn add_pairs(acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
            add_pairs(acc, a, b)
        }
        fn zero() -> __m512 {
            _mm512_setzero_ps()
        }
        fn splat_f(v: f32) -> __m512 {
            _mm512_set1_ps(v)
        }
        fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        fn sub(a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }
        fn mul(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }
        fn div(a: __m512, b: __m512) -> __m512 {
            _mm512_div_ps(a, b)
        }
        fn max(a: __m512, b: __m512) -> __m512 {
            _mm512_max_ps(a, b)
        }
        fn min(a: __m512, b: __m512) -> __m512 {
            _mm512_min_ps(a, b)
        }
        fn abs(a: __m512) -> __m512 {
            _mm512_abs_ps(a)
        }
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        fn round(a: __m512) -> __m512 {
            _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
        }
        fn exp2_int(n: __m512) -> __m512 {
            let e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(e))
        }
        fn reduce_add(a: __m512) -> f32 {
            let s = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            crate::avx2::Avx2::reduce_add(s)
        }
        fn reduce_max(a: __m512) -> f32 {
            _mm512_reduce_max_ps(a)
        }
        fn prefetch(p: *const u8) {
            _mm_prefetch::<_MM_HINT_T0>(p.cast())
        }
    }

    methods! { memory:
        fn load(p: *const u8) -> __m512i {
            _mm512_loadu_si512(p.cast())
        }
        fn store(p: *mut u8, v: __m512i) {
            _mm512_storeu_si512(p.cast(), v)
        }
        fn splat4(p: *const i8) -> __m512i {
            _mm512_set1_epi32(p.cast::<i32>().read_unaligned())
        }
        fn scale(p: *const i8) -> __m512i {
            _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))
        }
        fn pairs(p: *const i8) -> __m512i {
            let (a, b) = (Self::scale(p), Self::scale(p.add(16)));
            _mm512_or_si512(_mm512_and_si512(a, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32::<16>(b))
        }
        fn widen_pairs(p: *const i8) -> __m512i {
            _mm512_cvtepi8_epi16(_mm256_loadu_si256(p.cast()))
        }
        fn load_f(p: *const f32) -> __m512 {
            _mm512_loadu_ps(p)
        }
        fn store_f(p: *mut f32, v: __m512) {
            _mm512_storeu_ps(p, v)
        }
        fn load_f16(p: *const u16) -> __m512 {
            _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
        }
        fn store_f16(p: *mut u16, v: __m512) {
            _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
        }
        fn load_bf16(p: *const u16) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
        }
        fn load_e8m0(p: *const u8) -> __m512 {
            let e = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            // The two smallest are denormal: a single bit below the exponent field.
            let small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
            _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(1 << 21), e))
        }
        fn load_e4m3(p: *const u8) -> __m512 {
            let (sign, rest) = e4m3_parts(p);
            // All lower bits of the NaN code, at their new place.
            let nan = _mm256_cmpeq_epi16_mask(rest, _mm256_set1_epi16(0x7f << 7));
            e4m3_number(sign, _mm256_mask_mov_epi16(rest, nan, _mm256_set1_epi16(0x7e00)))
        }
        fn load_e4m3_scale(p: *const u8) -> __m512 {
            let (sign, rest) = e4m3_parts(p);
            e4m3_number(sign, rest)
        }
        fn store_i8(p: *mut i8, v: __m512) {
            _mm_storeu_si128(p.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)))
        }
        fn store_i16(p: *mut i16, v: __m512) {
            _mm256_storeu_si256(p.cast(), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)))
        }
    }
}
