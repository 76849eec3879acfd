//! Every lane operation of every instruction set of this CPU against plain Rust, on edges and random numbers.

use half::{bf16, f16};
use lamina_simd::{Isa, Simd, shells};

/// How often random numbers are tried; miri takes a thousand times as long.
const fn tries(n: usize) -> usize {
    if cfg!(miri) { n.div_ceil(500) } else { n }
}

/// From one 16-bit pattern to the next that is tried.
const STEP: usize = if cfg!(miri) { 251 } else { 1 };

/// A multiple of the lanes of every instruction set.
const BATCH: usize = 16;

fn random(seed: u64) -> impl FnMut() -> u32 {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (s >> 32) as u32
    }
}

const EDGES: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    8_388_607.5,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1e-40,
    f32::EPSILON,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    65504.0,
    65520.0,
    127.5,
    -128.5,
    3.3,
];

/// All triples of edges, then random bit patterns of every kind and random numbers of a usual size.
fn triples() -> [Vec<f32>; 3] {
    let (mut next, mut out) = (random(1), [vec![], vec![], vec![]]);
    for i in 0..if cfg!(miri) { EDGES.len() } else { EDGES.len().pow(3) } {
        for (k, out) in out.iter_mut().enumerate() {
            out.push(EDGES[i / EDGES.len().pow(k as u32) % EDGES.len()]);
        }
    }
    for i in 0..tries(40_000) {
        for out in &mut out {
            let bits = next();
            out.push(if i % 2 == 0 {
                f32::from_bits(bits)
            } else {
                (bits as f32 / 2f32.powi(31) - 1.0) * 100.0
            });
        }
    }
    let len = out[0].len() / BATCH * BATCH;
    out.map(|v| v[..len].to_vec())
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// A module per operation whose `of(isa)` applies it to arrays.
macro_rules! arrays {
    ($($module:ident: $load:ident, $store:ident, $x:ty, $y:ty, $op:ident $(::<$k:literal>)? ($($a:ident),*);)*) => { $(
        mod $module {
            use super::*;
            /// # Safety
            /// The CPU has the instructions of `S`; arrays are equally long, a multiple of the lanes.
            #[inline(always)]
            unsafe fn kernel<S: Simd>($($a: &[$x],)* out: &mut [$y]) {
                for i in (0..out.len()).step_by(S::N) {
                    // SAFETY: arrays are equally long, a multiple of the lanes.
                    unsafe { S::$store(out.as_mut_ptr().add(i).cast(), S::$op $(::<$k>)? ($(S::$load($a.as_ptr().add(i).cast())),*)) };
                }
            }
            shells! { pub fn of() = kernel($($a: &[$x],)* out: &mut [$y]) }
        }
    )* };
}

arrays! {
    add: load_f, store_f, f32, f32, add(a, b);
    sub: load_f, store_f, f32, f32, sub(a, b);
    mul: load_f, store_f, f32, f32, mul(a, b);
    div: load_f, store_f, f32, f32, div(a, b);
    max: load_f, store_f, f32, f32, max(a, b);
    min: load_f, store_f, f32, f32, min(a, b);
    abs: load_f, store_f, f32, f32, abs(a);
    round: load_f, store_f, f32, f32, round(a);
    fma: load_f, store_f, f32, f32, fma(a, b, c);
    exp2_int: load_f, store_f, f32, f32, exp2_int(a);
    to_f: load, store_f, i32, f32, to_f(a);
    and: load, store, i32, i32, and(a, b);
    or: load, store, i32, i32, or(a, b);
    add_i: load, store, i32, i32, add_i(a, b);
    sub_i: load, store, i32, i32, sub_i(a, b);
    mul_i: load, store, i32, i32, mul_i(a, b);
    dot_pairs: load, store, i32, i32, dot_pairs(a, b);
    add_pairs: load, store, i32, i32, add_pairs(a, b, c);
    shr1: load, store, i32, i32, shr::<1>(a);
    shr4: load, store, i32, i32, shr::<4>(a);
    shr7: load, store, i32, i32, shr::<7>(a);
    shl1: load, store, i32, i32, shl::<1>(a);
    shl4: load, store, i32, i32, shl::<4>(a);
    shl7: load, store, i32, i32, shl::<7>(a);
}

/// A module per format whose `of(isa)` loads and stores arrays.
macro_rules! conversions {
    ($($load:ident, $store:ident, $x:ty, $y:ty;)*) => { $(
        mod $load {
            use super::*;
            /// # Safety
            /// The CPU has the instructions of `S`; arrays are equally long, a multiple of the lanes.
            #[inline(always)]
            unsafe fn kernel<S: Simd>(x: &[$x], out: &mut [$y]) {
                for i in (0..out.len()).step_by(S::N) {
                    // SAFETY: arrays are equally long, a multiple of the lanes.
                    unsafe { S::$store(out.as_mut_ptr().add(i), S::$load(x.as_ptr().add(i))) };
                }
            }
            shells! { pub fn of() = kernel(x: &[$x], out: &mut [$y]) }
        }
    )* };
}

conversions! {
    load_f16, store_f, u16, f32;
    load_bf16, store_f, u16, f32;
    load_e8m0, store_f, u8, f32;
    load_e4m3, store_f, u8, f32;
    load_e4m3_scale, store_f, u8, f32;
    load_f, store_f16, f32, u16;
}

/// A module per integer type whose `of(isa)` rounds arrays to it.
macro_rules! roundings {
    ($($store:ident, $y:ty;)*) => { $(
        mod $store {
            use super::*;
            /// # Safety
            /// The CPU has the instructions of `S`; arrays are equally long, a multiple of the lanes.
            #[inline(always)]
            unsafe fn kernel<S: Simd>(x: &[f32], out: &mut [$y]) {
                for i in (0..out.len()).step_by(S::N) {
                    // SAFETY: arrays are equally long, a multiple of the lanes.
                    unsafe { S::$store(out.as_mut_ptr().add(i), S::load_f(x.as_ptr().add(i))) };
                }
            }
            shells! { pub fn of() = kernel(x: &[f32], out: &mut [$y]) }
        }
    )* };
}

roundings! {
    store_i8, i8;
    store_i16, i16;
}

mod widen_pairs {
    use super::*;
    /// # Safety
    /// The CPU has the instructions of `S`; arrays are equally long, a multiple of the lanes.
    #[inline(always)]
    unsafe fn kernel<S: Simd>(x: &[[i8; 2]], out: &mut [i32]) {
        for i in (0..out.len()).step_by(S::N) {
            // SAFETY: arrays are equally long, a multiple of the lanes.
            unsafe { S::store(out.as_mut_ptr().add(i).cast(), S::widen_pairs(x.as_ptr().add(i).cast())) };
        }
    }
    shells! { pub fn of() = kernel(x: &[[i8; 2]], out: &mut [i32]) }
}

/// What a call that writes an array has written; `args` is what the operation reads.
macro_rules! made {
    ($op:expr, $isa:expr, $zero:expr, $first:expr $(, $rest:expr)*) => {{
        let mut out = vec![$zero; $first.len()];
        assert_eq!(out.len() % BATCH, 0);
        // SAFETY: the instruction set is usable, and lengths are equal multiples of the lanes.
        unsafe { $op($isa)($first, $($rest,)* &mut out) };
        out
    }};
}

#[test]
fn float_operations_are_those_of_ieee() {
    type Two = (&'static str, fn(Isa) -> unsafe fn(&[f32], &[f32], &mut [f32]), fn(f32, f32) -> f32);
    let ops: [Two; 6] = [
        ("add", add::of, |a, b| a + b),
        ("sub", sub::of, |a, b| a - b),
        ("mul", mul::of, |a, b| a * b),
        ("div", div::of, |a, b| a / b),
        ("max", max::of, |a, b| if a > b { a } else { b }),
        ("min", min::of, |a, b| if a < b { a } else { b }),
    ];
    let [a, b, _] = triples();
    for isa in Isa::usable() {
        for (name, of, want) in ops {
            for ((&a, &b), got) in a.iter().zip(&b).zip(made!(of, isa, 0f32, &a, &b)) {
                assert!(same(got, want(a, b)), "{isa} {name} {a:e} {b:e}: {got:e}");
            }
        }
        for (&a, got) in a.iter().zip(made!(abs::of, isa, 0f32, &a)) {
            assert!(same(got, a.abs()), "{isa} abs {a:e}: {got:e}");
        }
        for (&a, got) in a.iter().zip(made!(round::of, isa, 0f32, &a)) {
            assert!(same(got, a.round_ties_even()), "{isa} round {a:e}: {got:e}");
        }
    }
}

#[test]
fn fma_rounds_once_where_the_cpu_can() {
    let [a, b, c] = triples();
    for isa in Isa::usable() {
        let got = made!(fma::of, isa, 0f32, &a, &b, &c);
        for (i, got) in got.into_iter().enumerate() {
            let (a, b, c) = (a[i], b[i], c[i]);
            let want = if isa == Isa::Scalar { a * b + c } else { a.mul_add(b, c) };
            assert!(same(got, want), "{isa} {a:e} * {b:e} + {c:e}: {got:e}");
        }
    }
}

#[test]
fn integer_operations_wrap() {
    type Two = (&'static str, fn(Isa) -> unsafe fn(&[i32], &[i32], &mut [i32]), fn(i32, i32) -> i32);
    let ops: [Two; 5] = [
        ("and", and::of, |a, b| a & b),
        ("or", or::of, |a, b| a | b),
        ("add", add_i::of, i32::wrapping_add),
        ("sub", sub_i::of, i32::wrapping_sub),
        ("mul", mul_i::of, i32::wrapping_mul),
    ];
    let mut next = random(2);
    let edges = [0, 1, -1, i32::MAX, i32::MIN, 0x7fff, -0x8000, 0x1_0000];
    let mut number = |i: usize| if i < 64 { edges[i % 8] } else { next() as i32 };
    let (a, b): (Vec<i32>, Vec<i32>) = (0..4096).map(|i| (number(i), number(i / 8))).unzip();
    for isa in Isa::usable() {
        for (name, of, want) in ops {
            for ((&a, &b), got) in a.iter().zip(&b).zip(made!(of, isa, 0i32, &a, &b)) {
                assert_eq!(got, want(a, b), "{isa} {name} {a} {b}");
            }
        }
        for (&a, got) in a.iter().zip(made!(to_f::of, isa, 0f32, &a)) {
            assert_eq!(got, a as f32, "{isa} {a}");
        }
    }
}

#[test]
fn shifts_move_halves() {
    type One = (fn(Isa) -> unsafe fn(&[i32], &mut [i32]), fn(u32) -> u32);
    let ops: [One; 6] = [
        (shr1::of, |h| h >> 1),
        (shr4::of, |h| h >> 4),
        (shr7::of, |h| h >> 7),
        (shl1::of, |h| h << 1),
        (shl4::of, |h| h << 4),
        (shl7::of, |h| h << 7),
    ];
    let mut next = random(3);
    let x: Vec<i32> = (0..1024).map(|_| next() as i32).collect();
    for isa in Isa::usable() {
        for (k, (of, want)) in ops.iter().enumerate() {
            for (&x, got) in x.iter().zip(made!(of, isa, 0i32, &x)) {
                let (low, high) = (want(x as u32 & 0xffff) & 0xffff, want(x as u32 >> 16) & 0xffff);
                assert_eq!(got as u32, low | high << 16, "{isa}, operation {k}, {x:#x}");
            }
        }
    }
}

#[test]
fn pairs_multiply_and_add() {
    let mut next = random(4);
    // Scales are signed bytes, sums of 32 activations at most 4064.
    let mut pair = |most: i32| -> (i32, i32) {
        let mut one = || (next() >> 8) as i32 % (2 * most + 1) - most;
        (one(), one())
    };
    let packed = |(a, b): (i32, i32)| (a & 0xffff) | b << 16;
    let (a, b): (Vec<_>, Vec<_>) = (0..1024).map(|_| (pair(128), pair(4096))).unzip();
    let (x, y): (Vec<i32>, Vec<i32>) =
        (a.iter().map(|&p| packed(p)).collect(), b.iter().map(|&p| packed(p)).collect());
    for isa in Isa::usable() {
        for (i, got) in made!(dot_pairs::of, isa, 0i32, &x, &y).into_iter().enumerate() {
            assert_eq!(got, a[i].0 * b[i].0 + a[i].1 * b[i].1, "{isa}");
        }
        for (i, got) in made!(add_pairs::of, isa, 0i32, &y, &x, &y).into_iter().enumerate() {
            assert_eq!(got, y[i].wrapping_add(a[i].0 * b[i].0 + a[i].1 * b[i].1), "{isa}");
        }
    }
}

#[test]
fn every_pattern_of_a_small_float_is_read() {
    let all16: Vec<u16> = (0..=u16::MAX).step_by(STEP).collect();
    let all8: Vec<u8> = (0..=u8::MAX).collect();
    let e4m3 = |b: u8| {
        let (e, m) = (i32::from(b >> 3 & 15), f32::from(b & 7));
        let size = if e == 0 { m * 2f32.powi(-9) } else { (8.0 + m) * 2f32.powi(e - 10) };
        if b & 0x80 == 0 { size } else { -size }
    };
    for isa in Isa::usable() {
        for (&h, got) in all16.iter().zip(made!(load_f16::of, isa, 0f32, &all16)) {
            assert!(same(got, f16::from_bits(h).to_f32()), "{isa} f16 {h:#x}: {got}");
        }
        for (&h, got) in all16.iter().zip(made!(load_bf16::of, isa, 0f32, &all16)) {
            assert!(same(got, bf16::from_bits(h).to_f32()), "{isa} bf16 {h:#x}: {got}");
        }
        for (&b, got) in all8.iter().zip(made!(load_e8m0::of, isa, 0f32, &all8)) {
            assert_eq!(f64::from(got), 2f64.powi(i32::from(b) - 128), "{isa} e8m0 {b}");
        }
        for (&b, got) in all8.iter().zip(made!(load_e4m3::of, isa, 0f32, &all8)) {
            let want = if b & 0x7f == 0x7f { f32::NAN } else { e4m3(b) };
            assert!(same(got, want), "{isa} e4m3 {b:#x}: {got}");
        }
        for (&b, got) in all8.iter().zip(made!(load_e4m3_scale::of, isa, 0f32, &all8)) {
            assert!(same(got, e4m3(b)), "{isa} e4m3 of a scale {b:#x}: {got}");
        }
    }
}

#[test]
fn float16_is_rounded_to_the_nearest_even() {
    let mut x: Vec<f32> = EDGES.to_vec();
    for h in 0..0x7c00 {
        let (low, high) = (f16::from_bits(h).to_f32(), f16::from_bits(h + 1).to_f32());
        let middle = if high.is_finite() { (low + high) / 2.0 } else { 65520.0 };
        for v in [low, middle, middle.next_down(), middle.next_up()] {
            x.extend([v, -v]);
        }
    }
    let mut next = random(5);
    x.extend((0..20_000).map(|_| f32::from_bits(next())));
    x.truncate(x.len() / BATCH * BATCH);
    for isa in Isa::usable() {
        for (&x, got) in x.iter().zip(made!(load_f::of, isa, 0u16, &x)) {
            let want = f16::from_f32(x);
            assert!(
                got == want.to_bits() || (x.is_nan() && f16::from_bits(got).is_nan()),
                "{isa} {x:e}: {got:#x}"
            );
        }
    }
}

#[test]
fn integers_are_rounded_and_cut() {
    let mut x: Vec<f32> = (-600..=600).flat_map(|i| [i as f32 / 2.0, i as f32 * 64.0 + 0.5]).collect();
    x.extend([0.49999997, -0.49999997, 126.50001, 1e9, -1e9, 1e-45, -0.0]);
    x.resize(x.len().next_multiple_of(BATCH), 0.0);
    for isa in Isa::usable() {
        for (&x, got) in x.iter().zip(made!(store_i8::of, isa, 0i8, &x)) {
            assert_eq!(f32::from(got), x.round_ties_even().clamp(-128.0, 127.0), "{isa} {x}");
        }
        for (&x, got) in x.iter().zip(made!(store_i16::of, isa, 0i16, &x)) {
            assert_eq!(f32::from(got), x.round_ties_even().clamp(-32768.0, 32767.0), "{isa} {x}");
        }
    }
}

#[test]
fn pairs_of_bytes_are_widened_with_their_signs() {
    let all: Vec<[i8; 2]> = (0..=u16::MAX).step_by(STEP).map(|v| v.to_le_bytes().map(|b| b as i8)).collect();
    for isa in Isa::usable() {
        for (&[a, b], got) in all.iter().zip(made!(widen_pairs::of, isa, 0i32, &all)) {
            assert_eq!([got as i16, (got >> 16) as i16], [a.into(), b.into()], "{isa}");
        }
    }
}

#[test]
fn powers_of_two_are_exact() {
    let n: Vec<f32> = (-126..=127).map(|n| n as f32).chain([0.0, 1.0]).collect();
    for isa in Isa::usable() {
        for (&n, got) in n.iter().zip(made!(exp2_int::of, isa, 0f32, &n)) {
            assert_eq!(f64::from(got), 2f64.powi(n as i32), "{isa} {n}");
        }
    }
}

/// One vector at most of every load, splat, look-up and reduction.
struct Once<'a> {
    bytes: &'a [u8; 64],
    table: &'a [i8; 16],
    floats: &'a [f32; 16],
    ints: [[i32; 16]; 6],
    splats: [[f32; 16]; 2],
    reduced: [f32; 2],
}

/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
unsafe fn once<S: Simd>(o: &mut Once) {
    // SAFETY: all arrays have room for 16 lanes.
    unsafe {
        let p = o.bytes.as_ptr();
        let index = S::and(S::load(p), S::splat_byte(15));
        let made = [
            S::lut(o.table, index),
            S::splat4(p.cast()),
            S::splat_byte(o.bytes[0]),
            S::splat(o.bytes[1].into()),
            S::pairs(p.cast()),
            S::sum(S::acc()),
        ];
        for (out, v) in o.ints.iter_mut().zip(made) {
            S::store(out.as_mut_ptr().cast(), v);
        }
        S::store_f(o.splats[0].as_mut_ptr(), S::zero());
        S::store_f(o.splats[1].as_mut_ptr(), S::splat_f(o.floats[0]));
        let v = S::load_f(o.floats.as_ptr());
        o.reduced = [S::reduce_add(v), S::reduce_max(v)];
        S::prefetch(p.wrapping_add(1 << 40));
    }
}
shells! { fn once_of() = once(o: &mut Once) }

fn lanes(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

#[test]
fn splats_look_ups_and_reductions() {
    let mut next = random(6);
    for _ in 0..tries(500) {
        let bytes: [u8; 64] = std::array::from_fn(|_| next() as u8);
        let table: [i8; 16] = std::array::from_fn(|_| next() as i8);
        let floats: [f32; 16] = std::array::from_fn(|_| next() as i32 as f32 / 1e8);
        let mut sums = vec![];
        for isa in Isa::usable() {
            let n = lanes(isa);
            let mut o = Once {
                bytes: &bytes,
                table: &table,
                floats: &floats,
                ints: [[7; 16]; 6],
                splats: [[7.0; 16]; 2],
                reduced: [0.0; 2],
            };
            // SAFETY: the instruction set is usable.
            unsafe { once_of(isa)(&mut o) };
            let word = |at: usize| i32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
            for l in 0..n {
                let looked = |k: usize| table[usize::from(bytes[4 * l + k] & 15)] as u8;
                let pair = i32::from(bytes[l] as i8) & 0xffff | i32::from(bytes[n + l] as i8) << 16;
                let want = [
                    i32::from_le_bytes(std::array::from_fn(looked)),
                    word(0),
                    i32::from_le_bytes([bytes[0]; 4]),
                    bytes[1].into(),
                    pair,
                    0,
                ];
                assert_eq!(o.ints.map(|v| v[l]), want, "{isa}, lane {l}");
                assert_eq!(o.splats.map(|v| v[l]), [0.0, floats[0]], "{isa}");
            }
            assert!(n == 16 || o.ints.iter().all(|v| v[n] == 7), "{isa} writes more than its lanes");
            let exact: f64 = floats[..n].iter().map(|&v| f64::from(v)).sum();
            assert!((f64::from(o.reduced[0]) - exact).abs() < 1e-4, "{isa}: {} for {exact}", o.reduced[0]);
            assert_eq!(o.reduced[1], floats[..n].iter().fold(f32::MIN, |m, v| m.max(*v)), "{isa}");
            sums.extend((n == 8).then_some(o.reduced[0]));
        }
        assert!(sums.iter().all(|s| *s == sums[0]), "sums of eight lanes have one order: {sums:?}");
    }
}

/// Byte products: `calls` vectors of weights and activations.
struct Dots<'a> {
    w: &'a [u8],
    x: &'a [i8],
    scales: &'a [i8; 16],
    calls: usize,
    /// Unsigned sum, signed sum, and both times the scales.
    out: [[i32; 16]; 4],
}

/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
unsafe fn dots<S: Simd>(d: &mut Dots) {
    // SAFETY: `calls` vectors of 16 lanes are there.
    unsafe {
        let (mut u, mut s, mut x_sum) = (S::acc(), S::acc(), S::splat(0));
        for i in 0..d.calls {
            let (w, x) =
                (S::load(d.w.as_ptr().add(4 * S::N * i)), S::load(d.x.as_ptr().add(4 * S::N * i).cast()));
            u = S::dot(u, S::and(w, S::splat_byte(127)), x);
            s = S::dot_signed(s, S::signed(w), x);
            x_sum = S::add_i(x_sum, S::sum(S::dot(S::acc(), S::splat_byte(1), x)));
        }
        let offset = S::mul_i(x_sum, S::splat(S::SIGNED_OFFSET));
        let scale = S::scale(d.scales.as_ptr());
        let scales = S::mul_i(S::scaled(S::dot(S::acc(), S::splat(1), S::splat(1)), scale), offset);
        let made = [
            S::sum(u),
            S::sub_i(S::sum(s), offset),
            S::scaled(u, scale),
            S::sub_i(S::scaled(s, scale), scales),
        ];
        for (out, v) in d.out.iter_mut().zip(made) {
            S::store(out.as_mut_ptr().cast(), v);
        }
    }
}
shells! { fn dots_of() = dots(d: &mut Dots) }

#[test]
fn byte_products_are_exact_up_to_their_number() {
    let mut next = random(7);
    // Largest magnitudes and how many products fit: see the trait.
    for (most, calls) in [(127u8, 1usize), (63, 2), (43, 3), (31, 4), (15, 8), (3, 43)] {
        assert!(calls * 254 * usize::from(most) <= 32767);
        for round in 0..tries(200) {
            let extreme = round % 2 == 0;
            let mut weight = || {
                let r = next();
                let size = if extreme { most } else { r as u8 % (most + 1) };
                if r & 1 << 20 == 0 { size as i8 } else { -(size as i8) }
            };
            let w: Vec<i8> = (0..64 * calls).map(|_| weight()).collect();
            let mut next = random((round * 64 + calls) as u64);
            let mut one =
                || if extreme { [127, -127][next() as usize >> 9 & 1] } else { (next() % 255) as i32 as i8 };
            let x: Vec<i8> = (0..64 * calls).map(|_| one().max(-127)).collect();
            let scales: [i8; 16] = std::array::from_fn(|_| next() as i8);
            check_dots(&w, &x, &scales, calls);
            // The unsigned product of bytes that are small enough.
            check_dots(&w.iter().map(|v| v.abs()).collect::<Vec<_>>(), &x, &scales, calls);
        }
    }
}

fn check_dots(w: &[i8], x: &[i8], scales: &[i8; 16], calls: usize) {
    let bytes: Vec<u8> = w.iter().map(|&v| v as u8).collect();
    let unsigned = w.iter().all(|&v| v >= 0);
    for isa in Isa::usable() {
        let n = lanes(isa);
        let mut d = Dots { w: &bytes, x, scales, calls, out: [[0; 16]; 4] };
        // SAFETY: the instruction set is usable.
        unsafe { dots_of(isa)(&mut d) };
        for l in 0..n {
            let at = |i: usize| (0..4).map(move |k| 4 * (n * i + l) + k);
            let want: i32 = (0..calls).flat_map(at).map(|i| i32::from(w[i]) * i32::from(x[i])).sum();
            let scaled = want * i32::from(scales[l]);
            assert_eq!([d.out[1][l], d.out[3][l]], [want, scaled], "{isa}, {calls} signed calls");
            if unsigned {
                assert_eq!([d.out[0][l], d.out[2][l]], [want, scaled], "{isa}, {calls} calls");
            }
        }
    }
}

/// Groups of weights by rows of activations.
struct Squares<'a> {
    w: &'a [[u8; 64]; 2],
    x: [&'a [i8; 8]; 2],
    out: [[i32; 16]; 2],
}

/// # Safety
/// The CPU has the instructions of `S`.
#[inline(always)]
unsafe fn squares<S: Simd>(s: &mut Squares) {
    // SAFETY: all arrays have room for 16 lanes, and eight bytes are read of a row.
    unsafe {
        let w = S::square([S::load(s.w[0].as_ptr()), S::load(s.w[1].as_ptr())]);
        let acc = S::dot_square([S::acc(); 2], w, s.x.map(|x| x.as_ptr()));
        for (out, sum) in s.out.iter_mut().zip(S::columns(acc)) {
            S::store(out.as_mut_ptr().cast(), S::sum(sum));
        }
    }
}
shells! { fn squares_of() = squares(s: &mut Squares) }

#[test]
fn squares_are_two_groups_times_two_rows() {
    let mut next = random(9);
    for round in 0..tries(2000) {
        // What two products of every set can hold.
        let most = if round % 2 == 0 { 63 } else { 1 + round as u8 % 63 };
        let w: [[u8; 64]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| next() as u8 % (most + 1)));
        let x: [[i8; 8]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| (next() as i8).max(-127)));
        for isa in Isa::usable() {
            let mut s = Squares { w: &w, x: [&x[0], &x[1]], out: [[0; 16]; 2] };
            // SAFETY: the instruction set is usable.
            unsafe { squares_of(isa)(&mut s) };
            for (c, l) in (0..2).flat_map(|c| (0..lanes(isa)).map(move |l| (c, l))) {
                let product = |k: usize| i32::from(w[k / 4][4 * l + k % 4]) * i32::from(x[c][k]);
                assert_eq!(s.out[c][l], (0..8).map(product).sum(), "{isa}, row {c}, lane {l}");
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions of `S`, and `x` and `out` are equally long, a multiple of the lanes.
#[inline(always)]
unsafe fn functions<S: Simd>(x: &[f32], out: &mut [[f32; 3]]) {
    for i in (0..x.len()).step_by(S::N) {
        let mut lanes = [[0f32; 16]; 3];
        // SAFETY: `x` is a multiple of the lanes, and 16 lanes fit.
        unsafe {
            let v = S::load_f(x.as_ptr().add(i));
            S::store_f(lanes[0].as_mut_ptr(), lamina_simd::exp::<S>(v));
            S::store_f(lanes[1].as_mut_ptr(), lamina_simd::sigmoid::<S>(v));
            S::store_f(lanes[2].as_mut_ptr(), lamina_simd::tanh::<S>(v));
        }
        for l in 0..S::N {
            out[i + l] = [lanes[0][l], lanes[1][l], lanes[2][l]];
        }
    }
}
shells! { fn functions_of() = functions(x: &[f32], out: &mut [[f32; 3]]) }

/// Numbers over the whole range, denser near zero.
fn arguments() -> Vec<f32> {
    let mut next = random(8);
    let mut x: Vec<f32> = (0..200_000).map(|_| (next() as f32 / 2f32.powi(31) - 1.0) * 90.0).collect();
    x.extend((0..100_000).map(|_| f32::from_bits(next())).filter(|v| v.is_finite()));
    x.extend((0..20_000).map(|i| (i - 10_000) as f32 * 1e-4));
    x.extend([0.0, -0.0, 1e-45, -1e-45, 88.0, -87.0, -87.3, 88.72]);
    x.resize(x.len().next_multiple_of(BATCH), 1.0);
    x
}

#[test]
fn functions_keep_their_error_bounds() {
    let x = arguments();
    for isa in Isa::usable() {
        let (mut worst, mut out) = ([0f64; 3], vec![[0f32; 3]; x.len()]);
        // SAFETY: the instruction set is usable, and lengths are equal multiples of the lanes.
        unsafe { functions_of(isa)(&x, &mut out) };
        for (&x, got) in x.iter().zip(out) {
            let (t, [exp, sigmoid, tanh]) = (f64::from(x), got.map(f64::from));
            let relative = |got: f64, want: f64| ((got - want) / want).abs();
            if (-87.3..=88.0).contains(&x) {
                worst[0] = worst[0].max(relative(exp, t.exp()));
            } else if x < -87.7 {
                assert_eq!(exp, 0.0, "{isa} exp {x:e}");
            } else if x < -87.3 {
                assert!((0.0..1.3e-38).contains(&exp), "{isa} exp {x:e}");
            } else if x > 88.0 {
                assert!(relative(exp, 88f64.exp()) < 2e-7, "{isa} exp {x:e}");
            }
            if x > -87.0 {
                worst[1] = worst[1].max(relative(sigmoid, 1.0 / (1.0 + (-t).exp())));
            } else {
                assert!((0.0..1e-37).contains(&sigmoid), "{isa} sigmoid {x:e}: {sigmoid:e}");
            }
            worst[2] = worst[2].max((tanh - t.tanh()).abs());
        }
        let (nothing, mut out) = (vec![f32::NAN; BATCH], vec![[0f32; 3]; BATCH]);
        // SAFETY: as above.
        unsafe { functions_of(isa)(&nothing, &mut out) };
        assert!(out.as_flattened().iter().all(|v| v.is_nan()), "{isa} NaN: {:?}", out[0]);
        println!("{isa}: exp {:.2e}, sigmoid {:.2e}, tanh {:.2e}", worst[0], worst[1], worst[2]);
        assert!(worst[0] < 2e-7 && worst[1] < 4e-7 && worst[2] < 2.5e-7, "{isa}: {worst:?}");
    }
}

#[test]
fn functions_of_infinity_and_nan() {
    let mut x = [1.0; BATCH];
    x[..4].copy_from_slice(&[f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -f32::NAN]);
    for isa in Isa::usable() {
        let mut out = [[0f32; 3]; BATCH];
        // SAFETY: the instruction set is usable, and lengths are equal multiples of the lanes.
        unsafe { functions_of(isa)(&x, &mut out) };
        assert_eq!(out[0][0], 0.0, "{isa}: hidden scores have no weight");
        assert!(out[0][1] < 1e-37 && out[0][2] == -1.0, "{isa}: {:?}", out[0]);
        assert!(out[1][0] > 1.6e38 && out[1][1] == 1.0 && out[1][2] == 1.0, "{isa}: {:?}", out[1]);
        assert!(out[2..4].iter().flatten().all(|v| v.is_nan()), "{isa}: {:?}", &out[2..4]);
    }
}
