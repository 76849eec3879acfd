//! Activations as kernels read them: float32 rows, or int8 with a scale per 32 or per 256 numbers.
//!
//! Blocks of the same place in all rows stand together (`[block][row]`), so that a weight panel streams over rows.

use bytemuck::{Pod, Zeroable};
use lamina_simd::{Simd, shells};

/// 256 activations with one scale, for weights whose integer scales cover 16 or 32 numbers.
#[repr(C, align(64))]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Act256 {
    /// `round(x / d)`, from -127 to 127.
    pub q: [i8; 256],
    /// Sums of 16 values each.
    pub sum16: [i16; 16],
    /// Sums of 32 values each.
    pub sum32: [i16; 8],
    /// Scale: largest magnitude / 127.
    pub d: f32,
    /// Fills the last line up.
    rest: [u8; 12],
}

/// 32 activations with one scale.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Act32 {
    /// `round(x / d)`, from -127 to 127.
    pub q: [i8; 32],
    /// Scale: largest magnitude / 127.
    pub d: f32,
    /// Sum of the values.
    pub sum: i16,
    /// Sum of the first 16 values, for types with a scale per 16.
    pub low: i16,
}

/// Which form of activations a weight multiplies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActKind {
    /// float32, `[row][column]`.
    F32,
    /// [`Act32`].
    Int32,
    /// [`Act256`].
    Int256,
}

impl ActKind {
    /// All forms.
    pub const ALL: [ActKind; 3] = [ActKind::F32, ActKind::Int32, ActKind::Int256];

    /// Numbers per block.
    pub const fn block(self) -> usize {
        match self {
            ActKind::F32 => 1,
            ActKind::Int32 => 32,
            ActKind::Int256 => 256,
        }
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        match self {
            ActKind::F32 => 4,
            ActKind::Int32 => size_of::<Act32>(),
            ActKind::Int256 => size_of::<Act256>(),
        }
    }

    /// What addresses of blocks are multiples of, in bytes.
    pub const fn align(self) -> usize {
        match self {
            ActKind::F32 => align_of::<f32>(),
            ActKind::Int32 => align_of::<Act32>(),
            ActKind::Int256 => align_of::<Act256>(),
        }
    }

    /// Bytes of `rows` rows of `width` numbers.
    pub const fn bytes(self, rows: usize, width: usize) -> usize {
        rows * width.div_ceil(self.block()) * self.block_bytes()
    }
}

/// A set of forms of activations.
#[derive(Clone, Copy, Default)]
pub struct ActKinds([bool; ActKind::ALL.len()]);

impl ActKinds {
    /// With `kind`.
    pub fn with(mut self, kind: ActKind) -> ActKinds {
        self.0[kind as usize] = true;
        self
    }

    /// True when `kind` is one of them.
    pub fn has(self, kind: ActKind) -> bool {
        self.0[kind as usize]
    }

    /// Each of them once.
    pub fn iter(self) -> impl Iterator<Item = ActKind> {
        ActKind::ALL.into_iter().filter(move |&kind| self.has(kind))
    }
}

/// Scale and values of 32 numbers; returns the sum of the values.
///
/// A block of zeros gets scale 0. NaN and infinity stay visible: the scale becomes NaN.
///
/// # Safety
/// The CPU has the instructions of `S`, `n` numbers are readable at `x` and `n` bytes writable at `q`; `n` is a
/// multiple of the lanes.
#[inline(always)]
unsafe fn quantize<S: Simd>(x: *const f32, n: usize, q: *mut i8) -> f32 {
    // SAFETY: the caller passes `n` readable numbers and `n` writable bytes, `n` a multiple of the lanes.
    unsafe {
        let (mut top, mut poison) = (S::zero(), S::zero());
        let mut i = 0;
        while i < n {
            let v = S::load_f(x.add(i));
            top = S::max(top, S::abs(v));
            // A maximum forgets NaN; zero times the number does not.
            poison = S::fma(v, S::zero(), poison);
            i += S::N;
        }
        let top = S::reduce_max(top) + S::reduce_add(poison);
        let inverse = if top > 0.0 { 127.0 / top } else { 0.0 };
        let factor = S::splat_f(inverse);
        i = 0;
        while i < n {
            S::store_i8(q.add(i), S::mul(S::load_f(x.add(i)), factor));
            i += S::N;
        }
        top / 127.0
    }
}

/// # Safety
/// `n` bytes are readable at `q`.
#[inline(always)]
unsafe fn sum(q: *const i8, n: usize) -> i32 {
    // SAFETY: the caller passes `n` readable bytes.
    // SAFETY: `i` is below `n`, and the caller promises `n` readable bytes.
    (0..n).map(|i| i32::from(unsafe { *q.add(i) })).sum()
}

/// Quantizes one row of `width` numbers into blocks `stride` blocks apart.
///
/// # Safety
/// The CPU has the instructions of `S`; `width`, a multiple of 32, numbers are readable at `x`, and the blocks `0,
/// stride, ..` of `out` that they fill are writable.
#[inline(always)]
unsafe fn to_act32<S: Simd>(x: *const f32, width: usize, out: *mut Act32, stride: usize) {
    // SAFETY: the caller passes `width` readable numbers, a multiple of 32, and room for the blocks.
    unsafe {
        for b in 0..width / 32 {
            let o = out.add(b * stride);
            (*o).d = quantize::<S>(x.add(b * 32), 32, (&raw mut (*o).q).cast());
            let q: *const i8 = (&raw const (*o).q).cast();
            (*o).low = sum(q, 16) as i16;
            (*o).sum = (*o).low + sum(q.add(16), 16) as i16;
        }
    }
}

/// Quantizes one row of `width` numbers into blocks `stride` blocks apart.
///
/// # Safety
/// The CPU has the instructions of `S`; `width`, a multiple of 256, numbers are readable at `x`, and the blocks `0,
/// stride, ..` of `out` that they fill are writable.
#[inline(always)]
unsafe fn to_act256<S: Simd>(x: *const f32, width: usize, out: *mut Act256, stride: usize) {
    // SAFETY: the caller passes `width` readable numbers, a multiple of 256, and room for the blocks.
    unsafe {
        for b in 0..width / 256 {
            let o = out.add(b * stride);
            let q: *mut i8 = (&raw mut (*o).q).cast();
            (*o).d = quantize::<S>(x.add(b * 256), 256, q);
            for i in 0..16 {
                (*o).sum16[i] = sum(q.add(16 * i), 16) as i16;
            }
            for i in 0..8 {
                (*o).sum32[i] = (*o).sum16[2 * i] + (*o).sum16[2 * i + 1];
            }
        }
    }
}

shells! {
    /// Quantizer to [`Act32`].
    pub(crate) fn act32_kernel() = to_act32(x: *const f32, width: usize, out: *mut Act32, stride: usize)
}
shells! {
    /// Quantizer to [`Act256`].
    pub(crate) fn act256_kernel() = to_act256(x: *const f32, width: usize, out: *mut Act256, stride: usize)
}
