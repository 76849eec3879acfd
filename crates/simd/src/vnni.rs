//! Lanes of 256 bits whose byte products are summed straight into int32, by either encoding of VNNI.
//!
//! The instructions of both encodings are the same. EVEX adds the upper 16 registers.

use crate::avx2::{Lanes, Products};
use std::{
    arch::{asm, x86_64::*},
    marker::PhantomData,
};

/// AVX2 with AVX-VNNI.
pub type AvxVnni = Lanes<Vnni<Vex>>;

/// AVX-512 VL and VNNI on registers of 256 bits.
pub type Avx512Vl = Lanes<Vnni<Evex>>;

/// Products summed to int32.
#[derive(Clone, Copy, Debug)]
pub struct Vnni<E>(PhantomData<E>);

/// One encoding of the instructions.
///
/// # Safety
/// As for [`crate::Simd`].
#[allow(clippy::missing_safety_doc, missing_docs)] // one condition for all, stated above; names are those of `Simd`
pub trait Encoding: Copy + Send + Sync + 'static {
    unsafe fn settle(acc: __m256i) -> __m256i;
    unsafe fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i;
    unsafe fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i;
}

/// Of AVX-VNNI.
#[derive(Clone, Copy, Debug)]
pub struct Vex;

/// Of AVX-512.
#[derive(Clone, Copy, Debug)]
pub struct Evex;

/// Inline assembly that asks for a vector register needs the feature on its own function.
// A `ymm_reg` would be one of the lower 16.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn settle_evex(mut acc: __m256i) -> __m256i {
    // SAFETY: an empty instruction that reads and writes one register.
    unsafe { asm!("/* {0:y} */", inout(zmm_reg) acc, options(nomem, nostack, preserves_flags)) };
    acc
}

/// Left to itself LLVM takes chains of this instruction apart again.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn add_pairs_vex(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: one instruction of AVX-VNNI on registers.
    unsafe {
        asm!("{{vex}} vpdpwssd {0}, {1}, {2}", inout(ymm_reg) acc, in(ymm_reg) a, in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags))
    };
    acc
}

/// As [`add_pairs_vex`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
unsafe fn add_pairs_evex(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: one instruction of AVX-512 VNNI on registers.
    unsafe {
        asm!("vpdpwssd {0:y}, {1:y}, {2:y}", inout(zmm_reg) acc, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags))
    };
    acc
}

// SAFETY of every block below: the trait's contract - the CPU has these instructions, and pointers are valid.
#[allow(clippy::undocumented_unsafe_blocks)] // one reason for all, stated above
mod lanes {
    use super::*;

    impl Encoding for Vex {
        #[inline(always)]
        unsafe fn settle(acc: __m256i) -> __m256i {
            unsafe { crate::avx2::settle(acc) }
        }
        #[inline(always)]
        unsafe fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
            unsafe { _mm256_dpbusd_avx_epi32(acc, u, x) }
        }
        #[inline(always)]
        unsafe fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
            unsafe { add_pairs_vex(acc, a, b) }
        }
    }

    impl Encoding for Evex {
        #[inline(always)]
        unsafe fn settle(acc: __m256i) -> __m256i {
            unsafe { settle_evex(acc) }
        }
        #[inline(always)]
        unsafe fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
            unsafe { _mm256_dpbusd_epi32(acc, u, x) }
        }
        #[inline(always)]
        unsafe fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
            unsafe { add_pairs_evex(acc, a, b) }
        }
    }

    impl<E: Encoding> Products for Vnni<E> {
        const SIGNED_OFFSET: i32 = 128;
        const WIDE_SUMS: bool = true;
        const SPLIT_SIGNED: bool = false;

        #[inline(always)]
        unsafe fn settle(acc: __m256i) -> __m256i {
            unsafe { E::settle(acc) }
        }
        #[inline(always)]
        unsafe fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
            unsafe { E::dot(acc, u, x) }
        }
        #[inline(always)]
        unsafe fn signed(w: __m256i) -> __m256i {
            unsafe { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) }
        }
        #[inline(always)]
        unsafe fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
            unsafe { E::dot(acc, w, x) }
        }
        #[inline(always)]
        unsafe fn sum(acc: __m256i) -> __m256i {
            acc
        }
        #[inline(always)]
        unsafe fn scaled(acc: __m256i, s: __m256i) -> __m256i {
            unsafe { _mm256_mullo_epi32(acc, s) }
        }
        #[inline(always)]
        unsafe fn scale(p: *const i8) -> __m256i {
            unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())) }
        }
        #[inline(always)]
        unsafe fn scale_splat(v: i16) -> __m256i {
            unsafe { _mm256_set1_epi32(i32::from(v)) }
        }
        #[inline(always)]
        unsafe fn scale_16(s: __m256i) -> __m256i {
            unsafe { _mm256_slli_epi32::<4>(s) }
        }
        #[inline(always)]
        unsafe fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
            unsafe { E::add_pairs(acc, a, b) }
        }
    }
}
