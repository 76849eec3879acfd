//! Lanes of aarch64: 8 of them in two registers of 128 bits, so that weight panels have the rows of AVX2.
//!
//! `smmla` multiplies two rows by two of eight bytes each. Panels interleave four bytes of a row, so that only tiles, which
//! are rearranged once and read often, use it.

use crate::Simd;
use std::{
    arch::{aarch64::*, asm},
    marker::PhantomData,
};

/// NEON with products of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<P>(PhantomData<P>);

/// NEON of every aarch64 CPU.
pub type Neon = Lanes<Widening>;

/// NEON with `sdot`.
pub type NeonDot = Lanes<Sdot<false>>;

/// NEON with `sdot` and `smmla`.
pub type NeonI8mm = Lanes<Sdot<true>>;

/// How the products of four signed bytes per lane are summed.
#[allow(missing_docs)] // names are those of `Simd`
pub trait Products: Copy + Send + Sync + 'static {
    const WIDE_SUMS: bool;
    const SQUARES: bool = false;
    type Acc: Copy;
    declare! { registers:
        fn acc() -> Self::Acc;
        fn settle(acc: Self::Acc) -> Self::Acc;
        fn dot(acc: Self::Acc, w: int32x4x2_t, x: int32x4x2_t) -> Self::Acc;
    }

    methods! { registers:
        fn columns(acc: [Self::Acc; 2]) -> [Self::Acc; 2] {
            acc
        }
    }

    methods! { memory:
        fn dot_square(acc: [Self::Acc; 2], w: [int32x4x2_t; 2], x: [*const i8; 2]) -> [Self::Acc; 2] {
            crate::four_dots::<Lanes<Self>>(acc, w, x)
        }
    }
    declare! { registers:
        fn sum(acc: Self::Acc) -> int32x4x2_t;
    }
}

/// Products widened to int16 and summed there: four per lane.
#[derive(Clone, Copy, Debug)]
pub struct Widening;

/// Products summed to int32 by `sdot`, and with `SQUARES` those of two rows at once by `smmla`.
#[derive(Clone, Copy, Debug)]
pub struct Sdot<const SQUARES: bool>;

/// One instruction on both registers.
macro_rules! both {
    ($pair:ident, $f:expr, $($a:ident),+) => { $pair($f($($a.0),+), $f($($a.1),+)) };
}

mod lanes {
    use super::*;

    impl Products for Widening {
        const WIDE_SUMS: bool = false;
        type Acc = [int16x8_t; 4];

        methods! { registers:
            fn settle(mut acc: [int16x8_t; 4]) -> [int16x8_t; 4] {
                for a in &mut acc {
                    asm!("/* {0:v} */", inout(vreg) * a, options(pure, nomem, nostack, preserves_flags));
                }
                acc
            }
            fn acc() -> [int16x8_t; 4] {
                [vdupq_n_s16(0); 4]
            }
            fn dot(a: [int16x8_t; 4], w: int32x4x2_t, x: int32x4x2_t) -> [int16x8_t; 4] {
                let (w0, x0) = (vreinterpretq_s8_s32(w.0), vreinterpretq_s8_s32(x.0));
                let (w1, x1) = (vreinterpretq_s8_s32(w.1), vreinterpretq_s8_s32(x.1));
                [
                    vmlal_s8(a[0], vget_low_s8(w0), vget_low_s8(x0)),
                    vmlal_high_s8(a[1], w0, x0),
                    vmlal_s8(a[2], vget_low_s8(w1), vget_low_s8(x1)),
                    vmlal_high_s8(a[3], w1, x1),
                ]
            }
            fn sum(a: [int16x8_t; 4]) -> int32x4x2_t {
                int32x4x2_t(vpaddlq_s16(vpaddq_s16(a[0], a[1])), vpaddlq_s16(vpaddq_s16(a[2], a[3])))
            }
        }
    }

    /// An instruction that adds products of signed bytes, by assembly: the intrinsic is not stable.
    macro_rules! byte_products {
        ($(#[$doc:meta])* $name:ident = $instruction:literal) => {
            $(#[$doc])*
            ///
            /// # Safety
            /// The CPU has this instruction.
            #[inline(always)]
            unsafe fn $name(mut acc: int32x4_t, w: int32x4_t, x: int32x4_t) -> int32x4_t {
                // SAFETY: one instruction on registers, which the caller promises that the CPU has.
                unsafe {
                    asm!(
                        concat!($instruction, " {a:v}.4s, {w:v}.16b, {x:v}.16b"),
                        a = inout(vreg) acc, w = in(vreg) w, x = in(vreg) x,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                acc
            }
        };
    }
    byte_products! {
        /// Per lane four bytes of `w` times four of `x`.
        sdot = "sdot"
    }
    byte_products! {
        /// Per lane the product of rows `lane / 2` of `w` and `lane % 2` of `x`, of eight bytes each.
        smmla = "smmla"
    }

    impl<const SQUARES: bool> Products for Sdot<SQUARES> {
        const WIDE_SUMS: bool = true;
        const SQUARES: bool = SQUARES;
        type Acc = int32x4x2_t;

        methods! { registers:
            /// `sdot` is assembly, whose order the compiler keeps as it is.
            fn settle(acc: int32x4x2_t) -> int32x4x2_t {
                acc
            }
            fn acc() -> int32x4x2_t {
                int32x4x2_t(vdupq_n_s32(0), vdupq_n_s32(0))
            }
            fn dot(acc: int32x4x2_t, w: int32x4x2_t, x: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, sdot, acc, w, x)
            }
            fn columns(acc: [int32x4x2_t; 2]) -> [int32x4x2_t; 2] {
                if !SQUARES {
                    return acc;
                }
                let [a, b] = acc;
                [
                    int32x4x2_t(vuzp1q_s32(a.0, a.1), vuzp1q_s32(b.0, b.1)),
                    int32x4x2_t(vuzp2q_s32(a.0, a.1), vuzp2q_s32(b.0, b.1)),
                ]
            }
            fn sum(acc: int32x4x2_t) -> int32x4x2_t {
                acc
            }
        }

        methods! { memory:
            /// Two rows of weights in either register of `w[i]`: those of the same lanes in `acc[i]`.
            fn dot_square(
                acc: [int32x4x2_t; 2],
                w: [int32x4x2_t; 2],
                x: [*const i8; 2],
            ) -> [int32x4x2_t; 2] {
                if !SQUARES {
                    return crate::four_dots::<Lanes<Self>>(acc, w, x);
                }
                let both = vreinterpretq_s32_s8(vcombine_s8(vld1_s8(x[0]), vld1_s8(x[1])));
                let x = int32x4x2_t(both, both);
                let ([a, b], [v, w]) = (acc, w);
                [both!(int32x4x2_t, smmla, a, v, x), both!(int32x4x2_t, smmla, b, w, x)]
            }
        }
    }

    methods! { registers:
        /// Eight float16. By assembly: the intrinsics are newer than the oldest compiler that Lamina builds with.
        fn from_f16(h: uint16x8_t) -> float32x4x2_t {
            let (low, high): (float32x4_t, float32x4_t);
                    asm!("fcvtl {o:v}.4s, {h:v}.4h", o = lateout(vreg) low, h = in(vreg) h, options(pure, nomem, nostack, preserves_flags));
            asm!("fcvtl2 {o:v}.4s, {h:v}.8h", o = lateout(vreg) high, h = in(vreg) h, options(pure, nomem, nostack, preserves_flags));
            float32x4x2_t(low, high)
        }
        /// Four float32 rounded to float16.
        fn to_f16(f: float32x4_t) -> uint16x4_t {
            let h: uint16x4_t;
                    asm!("fcvtn {o:v}.4h, {f:v}.4s", o = lateout(vreg) h, f = in(vreg) f, options(pure, nomem, nostack, preserves_flags));
            h
        }
        fn half_of_e8m0(e: uint32x4_t) -> float32x4_t {
            let normal = vshlq_n_u32::<23>(vsubq_u32(e, vdupq_n_u32(1)));
            // The two smallest are denormal: a single bit below the exponent field.
            let denormal = vshlq_u32(vdupq_n_u32(1 << 21), vreinterpretq_s32_u32(e));
            vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), denormal, normal))
        }
        fn power_of_two(n: float32x4_t) -> float32x4_t {
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127))))
        }
        /// `fmax` would turn one NaN operand into NaN; the trait asks for the second operand.
        fn larger(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            vbslq_f32(vcgtq_f32(a, b), a, b)
        }
        fn smaller(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            vbslq_f32(vcltq_f32(a, b), a, b)
        }
        fn pair_products(a: int32x4_t, b: int32x4_t) -> int32x4_t {
            let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
            vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b))
        }
        fn halves_right<const K: i32>(a: int32x4_t) -> int32x4_t {
            vreinterpretq_s32_u16(vshrq_n_u16::<K>(vreinterpretq_u16_s32(a)))
        }
        fn halves_left<const K: i32>(a: int32x4_t) -> int32x4_t {
            vreinterpretq_s32_u16(vshlq_n_u16::<K>(vreinterpretq_u16_s32(a)))
        }
    }

    methods! { memory:
        /// Signs, and all other bits, of eight e4m3 at their places in float16, whose bias is 8 larger.
        fn e4m3_parts(p: *const u8) -> (uint16x8_t, uint16x8_t) {
            let b = vmovl_u8(vld1_u8(p));
            (vshlq_n_u16::<8>(vandq_u16(b, vdupq_n_u16(0x80))), vshlq_n_u16::<7>(vandq_u16(b, vdupq_n_u16(0x7f))))
        }
        /// Eight bytes as int32.
        fn widen(p: *const i8) -> int32x4x2_t {
            let w = vmovl_s8(vld1_s8(p));
            int32x4x2_t(vmovl_s16(vget_low_s16(w)), vmovl_high_s16(w))
        }
    }

    impl<P: Products> Simd for Lanes<P> {
        const N: usize = 8;
        const AT_ONCE: usize = 4;
        const SIGNED_OFFSET: i32 = 0;
        const WIDE_SUMS: bool = P::WIDE_SUMS;
        const SPLIT_SIGNED: bool = false;
        const SQUARES: bool = P::SQUARES;
        type F = float32x4x2_t;
        type I = int32x4x2_t;
        type Acc = P::Acc;
        type Scale = int32x4x2_t;

        methods! { registers:
            fn splat(v: i32) -> int32x4x2_t {
                int32x4x2_t(vdupq_n_s32(v), vdupq_n_s32(v))
            }
            fn splat_byte(v: u8) -> int32x4x2_t {
                Self::splat(i32::from_ne_bytes([v; 4]))
            }
            fn and(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vandq_s32, a, b)
            }
            fn or(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vorrq_s32, a, b)
            }
            fn xor(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, veorq_s32, a, b)
            }
            fn shr<const K: i32>(a: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, halves_right::<K>, a)
            }
            fn shl<const K: i32>(a: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, halves_left::<K>, a)
            }
            fn lut(table: &[i8; 16], index: int32x4x2_t) -> int32x4x2_t {
                let t = vld1q_u8(table.as_ptr().cast());
                let (a, b) = (vreinterpretq_u8_s32(index.0), vreinterpretq_u8_s32(index.1));
                int32x4x2_t(vreinterpretq_s32_u8(vqtbl1q_u8(t, a)), vreinterpretq_s32_u8(vqtbl1q_u8(t, b)))
            }
            fn add_i(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vaddq_s32, a, b)
            }
            fn sub_i(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vsubq_s32, a, b)
            }
            fn mul_i(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vmulq_s32, a, b)
            }
            fn to_f(a: int32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vcvtq_f32_s32, a)
            }
            fn acc() -> P::Acc {
                P::acc()
            }
            fn settle(acc: P::Acc) -> P::Acc {
                P::settle(acc)
            }
            /// Unsigned bytes are at most 127, which is what makes the signed product right for them.
            fn dot(acc: P::Acc, u: int32x4x2_t, x: int32x4x2_t) -> P::Acc {
                P::dot(acc, u, x)
            }
            fn signed(w: int32x4x2_t) -> int32x4x2_t {
                w
            }
            fn dot_signed(acc: P::Acc, w: int32x4x2_t, x: int32x4x2_t) -> P::Acc {
                P::dot(acc, w, x)
            }
            /// Eight bytes of a row beside each other, two rows in a register.
            fn square([v, w]: [int32x4x2_t; 2]) -> [int32x4x2_t; 2] {
                if !P::SQUARES {
                    return [v, w];
                }
                            [
                    int32x4x2_t(vzip1q_s32(v.0, w.0), vzip2q_s32(v.0, w.0)),
                    int32x4x2_t(vzip1q_s32(v.1, w.1), vzip2q_s32(v.1, w.1)),
                ]
            }
            fn columns(acc: [P::Acc; 2]) -> [P::Acc; 2] {
                P::columns(acc)
            }
            fn sum(acc: P::Acc) -> int32x4x2_t {
                P::sum(acc)
            }
            fn scaled(acc: P::Acc, s: int32x4x2_t) -> int32x4x2_t {
                Self::mul_i(P::sum(acc), s)
            }
            fn scale_splat(v: i16) -> int32x4x2_t {
                Self::splat(i32::from(v))
            }
            fn scale_16(s: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, vshlq_n_s32::<4>, s)
            }
            fn dot_pairs(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                both!(int32x4x2_t, pair_products, a, b)
            }
            fn add_pairs(acc: int32x4x2_t, a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
                Self::add_i(acc, Self::dot_pairs(a, b))
            }
            fn zero() -> float32x4x2_t {
                Self::splat_f(0.0)
            }
            fn splat_f(v: f32) -> float32x4x2_t {
                float32x4x2_t(vdupq_n_f32(v), vdupq_n_f32(v))
            }
            fn add(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vaddq_f32, a, b)
            }
            fn sub(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vsubq_f32, a, b)
            }
            fn mul(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vmulq_f32, a, b)
            }
            fn div(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vdivq_f32, a, b)
            }
            fn max(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, larger, a, b)
            }
            fn min(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, smaller, a, b)
            }
            fn abs(a: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vabsq_f32, a)
            }
            fn fma(a: float32x4x2_t, b: float32x4x2_t, c: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vfmaq_f32, c, a, b)
            }
            fn round(a: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, vrndnq_f32, a)
            }
            fn exp2_int(n: float32x4x2_t) -> float32x4x2_t {
                both!(float32x4x2_t, power_of_two, n)
            }
            fn reduce_add(a: float32x4x2_t) -> f32 {
                let s = vaddq_f32(a.0, a.1);
                vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)))
            }
            fn reduce_max(a: float32x4x2_t) -> f32 {
                vmaxvq_f32(vmaxq_f32(a.0, a.1))
            }
            fn prefetch(p: *const u8) {
                asm!("prfm pldl1keep, [{p}]", p = in(reg) p, options(readonly, nostack, preserves_flags))
            }
        }

        methods! { memory:
            fn load(p: *const u8) -> int32x4x2_t {
                int32x4x2_t(vreinterpretq_s32_u8(vld1q_u8(p)), vreinterpretq_s32_u8(vld1q_u8(p.add(16))))
            }
            fn store(p: *mut u8, v: int32x4x2_t) {
                vst1q_u8(p, vreinterpretq_u8_s32(v.0));
                vst1q_u8(p.add(16), vreinterpretq_u8_s32(v.1));
            }
            fn splat4(p: *const i8) -> int32x4x2_t {
                Self::splat(p.cast::<i32>().read_unaligned())
            }
            fn dot_square(acc: [P::Acc; 2], w: [int32x4x2_t; 2], x: [*const i8; 2]) -> [P::Acc; 2] {
                P::dot_square(acc, w, x)
            }
            fn scale(p: *const i8) -> int32x4x2_t {
                widen(p)
            }
            fn pairs(p: *const i8) -> int32x4x2_t {
                let (a, b) = (vld1_s8(p), vld1_s8(p.add(8)));
                let (low, high) = (vmovl_s8(vzip1_s8(a, b)), vmovl_s8(vzip2_s8(a, b)));
                int32x4x2_t(vreinterpretq_s32_s16(low), vreinterpretq_s32_s16(high))
            }
            fn widen_pairs(p: *const i8) -> int32x4x2_t {
                let wide = |p| vreinterpretq_s32_s16(vmovl_s8(vld1_s8(p)));
                int32x4x2_t(wide(p), wide(p.add(8)))
            }
            fn load_f(p: *const f32) -> float32x4x2_t {
                float32x4x2_t(vld1q_f32(p), vld1q_f32(p.add(4)))
            }
            fn store_f(p: *mut f32, v: float32x4x2_t) {
                vst1q_f32(p, v.0);
                vst1q_f32(p.add(4), v.1);
            }
            fn load_f16(p: *const u16) -> float32x4x2_t {
                from_f16(vld1q_u16(p))
            }
            fn store_f16(p: *mut u16, v: float32x4x2_t) {
                vst1q_u16(p, vcombine_u16(to_f16(v.0), to_f16(v.1)))
            }
            fn load_bf16(p: *const u16) -> float32x4x2_t {
                let h = vld1q_u16(p);
                let (low, high) = (vmovl_u16(vget_low_u16(h)), vmovl_high_u16(h));
                float32x4x2_t(
                    vreinterpretq_f32_u32(vshlq_n_u32::<16>(low)),
                    vreinterpretq_f32_u32(vshlq_n_u32::<16>(high)),
                )
            }
            fn load_e8m0(p: *const u8) -> float32x4x2_t {
                let e = vmovl_u8(vld1_u8(p));
                float32x4x2_t(half_of_e8m0(vmovl_u16(vget_low_u16(e))), half_of_e8m0(vmovl_high_u16(e)))
            }
            fn load_e4m3(p: *const u8) -> float32x4x2_t {
                let (sign, rest) = e4m3_parts(p);
                // All lower bits of the NaN code, at their new place; its upper exponent bit makes a NaN of float16.
                let nan = vceqq_u16(rest, vdupq_n_u16(0x7f << 7));
                let rest = vorrq_u16(rest, vandq_u16(nan, vdupq_n_u16(0x4000)));
                Self::mul(from_f16(vorrq_u16(sign, rest)), Self::splat_f(256.0))
            }
            fn load_e4m3_scale(p: *const u8) -> float32x4x2_t {
                let (sign, rest) = e4m3_parts(p);
                Self::mul(from_f16(vorrq_u16(sign, rest)), Self::splat_f(256.0))
            }
            fn store_i8(p: *mut i8, v: float32x4x2_t) {
                let (low, high) = (vqmovn_s32(vcvtnq_s32_f32(v.0)), vqmovn_s32(vcvtnq_s32_f32(v.1)));
                vst1_s8(p, vqmovn_s16(vcombine_s16(low, high)));
            }
            fn store_i16(p: *mut i16, v: float32x4x2_t) {
                let (low, high) = (vqmovn_s32(vcvtnq_s32_f32(v.0)), vqmovn_s32(vcvtnq_s32_f32(v.1)));
                vst1q_s16(p, vcombine_s16(low, high));
            }
        }
    }
}
