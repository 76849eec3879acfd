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
#[allow(missing_docs)] // names are those of `Simd`
pub trait Encoding: Copy + Send + Sync + 'static {
    declare! { registers:
        fn settle(acc: __m256i) -> __m256i;
        fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i;
        fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i;
    }
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
fn settle_evex(mut acc: __m256i) -> __m256i {
    // SAFETY: an empty instruction that reads and writes one register.
    unsafe { asm!("/* {0:y} */", inout(zmm_reg) acc, options(nomem, nostack, preserves_flags)) };
    acc
}

/// Left to itself LLVM takes chains of this instruction apart again.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn add_pairs_vex(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
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
fn add_pairs_evex(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: one instruction of AVX-512 VNNI on registers.
    unsafe {
        asm!("vpdpwssd {0:y}, {1:y}, {2:y}", inout(zmm_reg) acc, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags))
    };
    acc
}

mod lanes {
    use super::*;

    impl Encoding for Vex {
        methods! { registers:
            fn settle(acc: __m256i) -> __m256i {
                crate::avx2::settle(acc)
            }
            fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
                _mm256_dpbusd_avx_epi32(acc, u, x)
            }
            fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
                add_pairs_vex(acc, a, b)
            }
        }
    }

    impl Encoding for Evex {
        methods! { registers:
            fn settle(acc: __m256i) -> __m256i {
                settle_evex(acc)
            }
            fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
                _mm256_dpbusd_epi32(acc, u, x)
            }
            fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
                add_pairs_evex(acc, a, b)
            }
        }
    }

    impl<E: Encoding> Products for Vnni<E> {
        const SIGNED_OFFSET: i32 = 128;
        const WIDE_SUMS: bool = true;
        const SPLIT_SIGNED: bool = false;

        methods! { registers:
            fn settle(acc: __m256i) -> __m256i {
                E::settle(acc)
            }
            fn dot(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
                E::dot(acc, u, x)
            }
            fn signed(w: __m256i) -> __m256i {
                _mm256_xor_si256(w, _mm256_set1_epi8(-128))
            }
            fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
                E::dot(acc, w, x)
            }
            fn sum(acc: __m256i) -> __m256i {
                acc
            }
            fn scaled(acc: __m256i, s: __m256i) -> __m256i {
                _mm256_mullo_epi32(acc, s)
            }
            fn scale_splat(v: i16) -> __m256i {
                _mm256_set1_epi32(i32::from(v))
            }
            fn scale_16(s: __m256i) -> __m256i {
                _mm256_slli_epi32::<4>(s)
            }
            fn add_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
                E::add_pairs(acc, a, b)
            }
        }

        methods! { memory:
            fn scale(p: *const i8) -> __m256i {
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))
            }
        }
    }
}
