//! Little-endian scalars without alignment, so that a block can be read in place at any byte of a file.

use bytemuck::{Pod, Zeroable};
use half::f16;

/// IEEE binary16, as two little-endian bytes: the scale of most block formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16Le([u8; 2]);

/// Unsigned 16 bit, as two little-endian bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct U16Le([u8; 2]);

/// Unsigned 32 bit, as four little-endian bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct U32Le([u8; 4]);

impl U16Le {
    /// Stores `v`.
    pub const fn new(v: u16) -> Self {
        U16Le(v.to_le_bytes())
    }

    /// The value.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        u16::from_le_bytes(self.0)
    }
}

impl U32Le {
    /// Stores `v`.
    pub const fn new(v: u32) -> Self {
        U32Le(v.to_le_bytes())
    }

    /// The value.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        u32::from_le_bytes(self.0)
    }
}

impl F16Le {
    /// Zero.
    pub const ZERO: F16Le = F16Le([0; 2]);
    /// Largest finite value, 65504.
    pub const MAX: F16Le = F16Le::from_bits(0x7BFF);

    /// The half with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        F16Le(bits.to_le_bytes())
    }

    /// The bits of this half.
    #[inline(always)]
    pub const fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// Exact float32 value. Branch-free: the loops over F16 rows are vectorized, which a call that first asks for
    /// the CPU's F16C unit would prevent.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        const REBIAS: f32 = f32::from_bits((254 - 15) << 23);
        let bits = u32::from(self.to_bits());
        let magnitude = f32::from_bits((bits & 0x7FFF) << 13) * REBIAS;
        let special = if bits & 0x7C00 == 0x7C00 { 0x7F80_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
    }

    /// Nearest half, ties to even; beyond 65519.99 an infinity, as IEEE asks.
    #[inline]
    pub fn from_f32(v: f32) -> Self {
        F16Le::from_bits(f16::from_f32(v).to_bits())
    }

    /// Nearest finite half: what a scale is stored as, so that no block decodes to an infinity because its values
    /// were large.
    #[inline]
    pub fn finite(v: f32) -> Self {
        F16Le::from_f32(v.clamp(-65504.0, 65504.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_equals_the_library() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (F16Le::from_bits(bits).to_f32(), f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#06x}");
        }
    }

    #[test]
    fn scales_stay_finite() {
        assert_eq!(F16Le::finite(1e30), F16Le::MAX);
        assert_eq!(F16Le::finite(-f32::INFINITY).to_f32(), -65504.0);
    }
}
