use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{nibbles, pack_nibbles},
    search::{Levels, both_ends, Normal, clamp, fit_scale, inverse},
};

/// 4 bit with unequal steps, one scale per 32: `x = d * VALUES[q]`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ4_NL {
    /// Scale.
    pub d: F16Le,
    /// Codes 0 to 15: byte `i` holds element `i` in its low nibble and element `i + 16` in its high one.
    pub qs: [u8; 16],
}

impl BlockIQ4_NL {
    /// What the codes of IQ4_NL and IQ4_XS stand for.
    pub const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
}

impl BlockFormat for BlockIQ4_NL {
    const DTYPE: DType = DType::IQ4_NL;
    type Values = [f32; 32];

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, codes) = (self.d.to_f32(), nibbles::<16, 32>(&self.qs));
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * VALUES_F32[usize::from(q)]);
    }

    fn encode(x: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let Some(block) = Normal::new(x, importance) else { return Self::zeroed() };
        let (d, step) = block.store(fit_scale::<32, Unequal>(&block.x, &block.w));
        let per_step = inverse(step);
        BlockIQ4_NL { d, qs: pack_nibbles::<16, 16>(&block.x.map(|v| Unequal::code(v * per_step))) }
    }
}

/// [`BlockIQ4_NL::VALUES`] as floats: what decoding looks up.
pub(super) static VALUES_F32: [f32; 16] = {
    let (mut values, mut i) = ([0.0; 16], 0);
    while i < 16 {
        values[i] = BlockIQ4_NL::VALUES[i] as f32;
        i += 1;
    }
    values
};

/// The sixteen values as levels of a search.
pub(super) struct Unequal;

impl Unequal {
    /// Code of the value nearest to `y`; the upper one of two.
    #[inline(always)]
    pub fn code(y: f32) -> u8 {
        CODES[(2.0 * clamp(y, -127.0, 127.0) + 256.0) as usize & 511]
    }
}

/// Code by twice the value plus 256: the borders between the values are halves, so whole numbers tell all of them apart.
/// A comparison with each of the fifteen borders needs no table but three times as long.
static CODES: [u8; 512] = {
    let (mut codes, mut i) = ([0; 512], 0);
    while i < 512 {
        let twice = i as i32 - 256;
        let mut k = 0;
        while k < 15 {
            codes[i] += (twice >= BlockIQ4_NL::VALUES[k] as i32 + BlockIQ4_NL::VALUES[k + 1] as i32) as u8;
            k += 1;
        }
        i += 1;
    }
    codes
};

impl Levels for Unequal {
    const TARGETS: &'static [f32] = &both_ends(-127.0, 113.0, 3.0);

    #[inline(always)]
    fn nearest(y: f32) -> f32 {
        VALUES_F32[usize::from(Self::code(y))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_the_nearest_value() {
        for i in -2000..2000 {
            let y = i as f32 * 0.07;
            let by_distance = VALUES_F32.iter().map(|v| (v - y).abs()).fold(f32::MAX, f32::min);
            assert_eq!((Unequal::nearest(y) - y).abs(), by_distance, "{y}");
        }
        assert_eq!(Unequal::code(f32::NAN), 0);
    }
}
