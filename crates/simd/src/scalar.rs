//! Portable lanes: arrays of 8, the readable twin of every instruction set.

use crate::Simd;
use half::{bf16, f16};

/// Portable code.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

const N: usize = 8;
type F = [f32; N];
type I = [i32; N];

#[inline(always)]
fn map(a: F, b: F, f: impl Fn(f32, f32) -> f32) -> F {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn map_i(a: I, b: I, f: impl Fn(i32, i32) -> i32) -> I {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Both 16-bit halves of each lane through `f`.
#[inline(always)]
fn halves(a: I, f: impl Fn(u16) -> u16) -> I {
    a.map(|v| (f(v as u16) as u32 | (f((v >> 16) as u16) as u32) << 16) as i32)
}

#[inline(always)]
fn dot4(u: [i32; 4], x: i32) -> i32 {
    let x = x.to_le_bytes();
    (0..4).map(|k| u[k] * x[k] as i8 as i32).sum()
}

impl Simd for Scalar {
    const N: usize = N;
    /// Sums do not stay in registers: products of Q4_K with 64 rows took 208 us a row four rows at once and 195 one at a time,
    /// and unrolled kernels of this set alone 1.3 MB of a build.
    const AT_ONCE: usize = 1;
    const SIGNED_OFFSET: i32 = 0;
    const WIDE_SUMS: bool = true;
    const SPLIT_SIGNED: bool = false;
    type F = F;
    type I = I;
    type Acc = I;
    type Scale = I;

    methods! { registers:
        fn splat(v: i32) -> I {
            [v; N]
        }
        fn splat_byte(v: u8) -> I {
            [i32::from_le_bytes([v; 4]); N]
        }
        fn and(a: I, b: I) -> I {
            map_i(a, b, |a, b| a & b)
        }
        fn or(a: I, b: I) -> I {
            map_i(a, b, |a, b| a | b)
        }
        fn xor(a: I, b: I) -> I {
            map_i(a, b, |a, b| a ^ b)
        }
        fn shr<const K: i32>(a: I) -> I {
            halves(a, |h| h >> K)
        }
        fn shl<const K: i32>(a: I) -> I {
            halves(a, |h| h << K)
        }
        fn lut(table: &[i8; 16], index: I) -> I {
            index.map(|v| i32::from_le_bytes(v.to_le_bytes().map(|b| table[b as usize & 15] as u8)))
        }
        fn add_i(a: I, b: I) -> I {
            map_i(a, b, i32::wrapping_add)
        }
        fn sub_i(a: I, b: I) -> I {
            map_i(a, b, i32::wrapping_sub)
        }
        fn mul_i(a: I, b: I) -> I {
            map_i(a, b, i32::wrapping_mul)
        }
        fn to_f(a: I) -> F {
            a.map(|v| v as f32)
        }
        fn acc() -> I {
            [0; N]
        }
        fn settle(acc: I) -> I {
            acc
        }
        fn dot(acc: I, u: I, x: I) -> I {
            std::array::from_fn(|i| acc[i] + dot4(u[i].to_le_bytes().map(i32::from), x[i]))
        }
        fn signed(w: I) -> I {
            w
        }
        fn dot_signed(acc: I, w: I, x: I) -> I {
            std::array::from_fn(|i| acc[i] + dot4(w[i].to_le_bytes().map(|b| b as i8 as i32), x[i]))
        }
        fn sum(acc: I) -> I {
            acc
        }
        fn scaled(acc: I, s: I) -> I {
            map_i(acc, s, |a, s| a * s)
        }
        fn scale_splat(v: i16) -> I {
            [i32::from(v); N]
        }
        fn scale_16(s: I) -> I {
            s.map(|s| s << 4)
        }
        fn dot_pairs(a: I, b: I) -> I {
            map_i(a, b, |a, b| (a as i16 as i32) * (b as i16 as i32) + (a >> 16) * (b >> 16))
        }
        fn add_pairs(acc: I, a: I, b: I) -> I {
            Self::add_i(acc, Self::dot_pairs(a, b))
        }
        fn zero() -> F {
            [0.0; N]
        }
        fn splat_f(v: f32) -> F {
            [v; N]
        }
        fn add(a: F, b: F) -> F {
            map(a, b, |a, b| a + b)
        }
        fn sub(a: F, b: F) -> F {
            map(a, b, |a, b| a - b)
        }
        fn mul(a: F, b: F) -> F {
            map(a, b, |a, b| a * b)
        }
        fn div(a: F, b: F) -> F {
            map(a, b, |a, b| a / b)
        }
        fn max(a: F, b: F) -> F {
            map(a, b, |a, b| if a > b { a } else { b })
        }
        fn min(a: F, b: F) -> F {
            map(a, b, |a, b| if a < b { a } else { b })
        }
        fn abs(a: F) -> F {
            a.map(f32::abs)
        }
        /// Not fused: a software fused product would be tens of times slower on CPUs that need this file.
        fn fma(a: F, b: F, c: F) -> F {
            std::array::from_fn(|i| a[i] * b[i] + c[i])
        }
        fn round(a: F) -> F {
            a.map(f32::round_ties_even)
        }
        fn exp2_int(n: F) -> F {
            n.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
        }
        fn reduce_add(a: F) -> f32 {
            let s: [f32; 4] = std::array::from_fn(|i| a[i] + a[i + 4]);
            (s[0] + s[2]) + (s[1] + s[3])
        }
        fn reduce_max(a: F) -> f32 {
            a.into_iter().fold(f32::NEG_INFINITY, f32::max)
        }
        fn prefetch(_: *const u8) {

        }
    }

    methods! { memory:
        fn load(p: *const u8) -> I {
            p.cast::<I>().read_unaligned().map(i32::from_le)
        }
        fn store(p: *mut u8, v: I) {
            p.cast::<I>().write_unaligned(v.map(i32::to_le))
        }
        fn splat4(p: *const i8) -> I {
            [i32::from_le(p.cast::<i32>().read_unaligned()); N]
        }
        fn scale(p: *const i8) -> I {
            std::array::from_fn(|i| *p.add(i) as i32)
        }
        fn pairs(p: *const i8) -> I {
            let (a, b) = (Self::scale(p), Self::scale(p.add(N)));
            map_i(a, b, |a, b| (a & 0xffff) | b << 16)
        }
        fn widen_pairs(p: *const i8) -> I {
            let bytes = p.cast::<[[i8; 2]; N]>().read_unaligned();
            bytes.map(|[a, b]| (i32::from(a) & 0xffff) | i32::from(b) << 16)
        }
        fn load_f(p: *const f32) -> F {
            p.cast::<F>().read_unaligned()
        }
        fn store_f(p: *mut f32, v: F) {
            p.cast::<F>().write_unaligned(v)
        }
        fn load_f16(p: *const u16) -> F {
            p.cast::<[u16; N]>().read_unaligned().map(|h| f16::from_bits(h).to_f32())
        }
        fn store_f16(p: *mut u16, v: F) {
            p.cast::<[u16; N]>().write_unaligned(v.map(|v| f16::from_f32(v).to_bits()))
        }
        fn load_bf16(p: *const u16) -> F {
            p.cast::<[u16; N]>().read_unaligned().map(|h| bf16::from_bits(h).to_f32())
        }
        fn load_e8m0(p: *const u8) -> F {
            p.cast::<[u8; N]>().read_unaligned().map(|e| {
                let e = u32::from(e);
                f32::from_bits(if e < 2 { (1 << 21) << e } else { (e - 1) << 23 })
            })
        }
        fn load_e4m3(p: *const u8) -> F {
            let bytes = p.cast::<[u8; N]>().read_unaligned();
            let read = Self::load_e4m3_scale(p);
            std::array::from_fn(|i| if bytes[i] & 0x7f == 0x7f { f32::NAN } else { read[i] })
        }
        fn load_e4m3_scale(p: *const u8) -> F {
            // The bits of e4m3 are those of a float16 with four exponent bits less, whose bias is 8 smaller.
            let one =
                |b: u8| f16::from_bits(u16::from(b & 0x80) << 8 | u16::from(b & 0x7f) << 7).to_f32() * 256.0;
            p.cast::<[u8; N]>().read_unaligned().map(one)
        }
        fn store_i8(p: *mut i8, v: F) {
            let bytes = v.map(|v| v.round_ties_even() as i8);
            p.cast::<[i8; N]>().write_unaligned(bytes)
        }
        fn store_i16(p: *mut i16, v: F) {
            p.cast::<[i16; N]>().write_unaligned(v.map(|v| v.round_ties_even() as i16))
        }
    }
}
