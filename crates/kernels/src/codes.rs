//! How the small integers of a panel are packed into bytes, and how a kernel gets them back.
//!
//! A panel interleaves `S::N` rows: vector `g` of a sub-block of 32 columns holds, per row, the four columns from `4 g`
//! on. A sub-block is packed so that each byte is read once: the low nibbles of vector `v` belong to group `v`, the high
//! ones to group `v + 4`; a plane of two bits keeps groups `v, v + 2, v + 4, v + 6`, a plane of one bit all eight.

use lamina_simd::Simd;

/// Packing of a sub-block of 32 columns.
pub trait Codes: Send + Sync + 'static {
    /// Bits per value; the sub-block takes `BITS` vectors.
    const BITS: usize;

    /// The eight groups of the sub-block at `p`, one value per byte.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, and `BITS` vectors are readable at `p`, at any alignment.
    unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8];

    /// Packs the values of one row into word `row` of each vector; `codes[g]` is group `g`, four bytes.
    fn pack(codes: &[u32; 8], put: impl FnMut(usize, u32));
}

/// 8 bits.
pub struct Bits8;
/// 4 bits.
pub struct Bits4;
/// 2 bits.
pub struct Bits2;
/// 1 bit.
pub struct Bits1;
/// 4 low and 1 high bit.
pub struct Bits5;
/// 4 low and 2 high bits.
pub struct Bits6;
/// 2 low and 1 high bit.
pub struct Bits3;

const fn bytes(v: u8) -> u32 {
    u32::from_le_bytes([v; 4])
}

mod lanes {
    use super::*;

    impl Codes for Bits8 {
        const BITS: usize = 8;
        /// # Safety
        /// The CPU has the instructions of `S`, and eight vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: an operation on registers alone, whose instructions the caller promises.
            let mut out = [unsafe { S::splat(0) }; 8];
            for (g, o) in out.iter_mut().enumerate() {
                // SAFETY: `g` stays below the eight vectors that the caller promises.
                *o = unsafe { S::load(p.add(g * 4 * S::N)) };
            }
            out
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            codes.iter().enumerate().for_each(|(g, &c)| put(g, c));
        }
    }

    impl Codes for Bits4 {
        const BITS: usize = 4;
        /// # Safety
        /// The CPU has the instructions of `S`, and four vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: `v` stays below the four vectors that the caller promises.
            unsafe {
                let mask = S::splat_byte(15);
                let mut out = [mask; 8];
                for v in 0..4 {
                    let q = S::load(p.add(v * 4 * S::N));
                    out[v] = S::and(q, mask);
                    out[v + 4] = S::and(S::shr::<4>(q), mask);
                }
                out
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            (0..4).for_each(|v| put(v, (codes[v] & bytes(15)) | (codes[v + 4] & bytes(15)) << 4));
        }
    }

    impl Codes for Bits2 {
        const BITS: usize = 2;
        /// # Safety
        /// The CPU has the instructions of `S`, and two vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: `v` stays below the two vectors that the caller promises.
            unsafe {
                let mask = S::splat_byte(3);
                let mut out = [mask; 8];
                for v in 0..2 {
                    let q = S::load(p.add(v * 4 * S::N));
                    out[v] = S::and(q, mask);
                    out[v + 2] = S::and(S::shr::<2>(q), mask);
                    out[v + 4] = S::and(S::shr::<4>(q), mask);
                    out[v + 6] = S::and(S::shr::<6>(q), mask);
                }
                out
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            for v in 0..2 {
                let at = |t: usize| (codes[v + 2 * t] & bytes(3)) << (2 * t);
                put(v, at(0) | at(1) | at(2) | at(3));
            }
        }
    }

    impl Codes for Bits1 {
        const BITS: usize = 1;
        /// # Safety
        /// The CPU has the instructions of `S`, and one vector is readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: the one vector that the caller promises is read.
            unsafe {
                let (q, mask) = (S::load(p), S::splat_byte(1));
                let one = |v| S::and(v, mask);
                [
                    one(q),
                    one(S::shr::<1>(q)),
                    one(S::shr::<2>(q)),
                    one(S::shr::<3>(q)),
                    one(S::shr::<4>(q)),
                    one(S::shr::<5>(q)),
                    one(S::shr::<6>(q)),
                    one(S::shr::<7>(q)),
                ]
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            put(0, (0..8).map(|g| (codes[g] & bytes(1)) << g).fold(0, |a, b| a | b));
        }
    }

    impl Codes for Bits5 {
        const BITS: usize = 5;
        /// # Safety
        /// The CPU has the instructions of `S`, and five vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: four vectors of nibbles are read first, then the fifth of high bits.
            unsafe {
                let mut out = Bits4::groups::<S>(p);
                let (q, bit) = (S::load(p.add(16 * S::N)), S::splat_byte(16));
                out[0] = S::or(out[0], S::and(S::shl::<4>(q), bit));
                out[1] = S::or(out[1], S::and(S::shl::<3>(q), bit));
                out[2] = S::or(out[2], S::and(S::shl::<2>(q), bit));
                out[3] = S::or(out[3], S::and(S::shl::<1>(q), bit));
                out[4] = S::or(out[4], S::and(q, bit));
                out[5] = S::or(out[5], S::and(S::shr::<1>(q), bit));
                out[6] = S::or(out[6], S::and(S::shr::<2>(q), bit));
                out[7] = S::or(out[7], S::and(S::shr::<3>(q), bit));
                out
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            Bits4::pack(codes, &mut put);
            Bits1::pack(&codes.map(|c| c >> 4), |_, w| put(4, w));
        }
    }

    impl Codes for Bits6 {
        const BITS: usize = 6;
        /// # Safety
        /// The CPU has the instructions of `S`, and six vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: four vectors of nibbles are read first, then the fifth and the sixth of high bits.
            unsafe {
                let mut out = Bits4::groups::<S>(p);
                let bits = S::splat_byte(0x30);
                for v in 0..2 {
                    let q = S::load(p.add((4 + v) * 4 * S::N));
                    out[v] = S::or(out[v], S::and(S::shl::<4>(q), bits));
                    out[v + 2] = S::or(out[v + 2], S::and(S::shl::<2>(q), bits));
                    out[v + 4] = S::or(out[v + 4], S::and(q, bits));
                    out[v + 6] = S::or(out[v + 6], S::and(S::shr::<2>(q), bits));
                }
                out
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            Bits4::pack(codes, &mut put);
            Bits2::pack(&codes.map(|c| c >> 4), |v, w| put(4 + v, w));
        }
    }

    impl Codes for Bits3 {
        const BITS: usize = 3;
        /// # Safety
        /// The CPU has the instructions of `S`, and three vectors are readable at `p`.
        #[inline(always)]
        unsafe fn groups<S: Simd>(p: *const u8) -> [S::I; 8] {
            // SAFETY: two vectors of pairs of bits are read first, then the third of high bits.
            unsafe {
                let mut out = Bits2::groups::<S>(p);
                let (q, bit) = (S::load(p.add(8 * S::N)), S::splat_byte(4));
                out[0] = S::or(out[0], S::and(S::shl::<2>(q), bit));
                out[1] = S::or(out[1], S::and(S::shl::<1>(q), bit));
                out[2] = S::or(out[2], S::and(q, bit));
                out[3] = S::or(out[3], S::and(S::shr::<1>(q), bit));
                out[4] = S::or(out[4], S::and(S::shr::<2>(q), bit));
                out[5] = S::or(out[5], S::and(S::shr::<3>(q), bit));
                out[6] = S::or(out[6], S::and(S::shr::<4>(q), bit));
                out[7] = S::or(out[7], S::and(S::shr::<5>(q), bit));
                out
            }
        }
        fn pack(codes: &[u32; 8], mut put: impl FnMut(usize, u32)) {
            Bits2::pack(codes, &mut put);
            Bits1::pack(&codes.map(|c| c >> 2), |_, w| put(2, w));
        }
    }
}
