use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use super::ternary;
use crate::{BlockFormat, F16Le};

/// Ternary, 1.69 bit, one scale per 256: `x = d * (q - 1)`, five codes to a byte.
///
/// A byte holds codes `q0` to `q4` as `ceil((81 q0 + 27 q1 + 9 q2 + 3 q3 + q4) * 256 / 243)`: multiplying by a power of
/// three modulo 256 brings a code to the top, where times 3 shifted right by 8 reads it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTQ1_0 {
    /// Bytes 0 to 31: byte `i` holds elements `i`, `i + 32` to `i + 128`. Bytes 32 to 47: byte `32 + i` holds elements
    /// `160 + i`, `176 + i` to `224 + i`.
    pub qs: [u8; 48],
    /// Byte `i` holds elements `240 + i`, `244 + i`, `248 + i`, `252 + i` as the first four of five.
    pub qh: [u8; 4],
    /// Scale.
    pub d: F16Le,
}

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

impl BlockTQ1_0 {
    /// Codes 0 to 2.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        let mut codes = [0; 256];
        let (first, rest) = codes.split_at_mut(160);
        let (second, last) = rest.split_at_mut(80);
        unpack::<32>(&self.qs[..32], first);
        unpack::<16>(&self.qs[32..], second);
        unpack::<4>(&self.qh, last);
        codes
    }
}

#[inline(always)]
fn unpack<const BYTES: usize>(packed: &[u8], codes: &mut [u8]) {
    for (codes, power) in codes.as_chunks_mut::<BYTES>().0.iter_mut().zip(POWERS) {
        let digits = packed.iter().map(|b| ((u16::from(b.wrapping_mul(power)) * 3) >> 8) as u8);
        codes.iter_mut().zip(digits).for_each(|(c, digit)| *c = digit);
    }
}

fn pack<const BYTES: usize>(codes: &[u8]) -> [u8; BYTES] {
    std::array::from_fn(|i| {
        let digits = codes.iter().skip(i).step_by(BYTES).chain(&[0]);
        let number = digits.take(5).fold(0, |n, digit| 3 * n + u16::from(*digit));
        (number * 256).div_ceil(243) as u8
    })
}

impl BlockFormat for BlockTQ1_0 {
    const DTYPE: DType = DType::TQ1_0;
    type Values = [f32; 256];

    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, codes) = (self.d.to_f32(), self.codes());
        out.iter_mut().zip(codes).for_each(|(o, q)| *o = d * f32::from(q as i8 - 1));
    }

    fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let (d, codes) = ternary::encode(x, importance);
        let mut qs = [0; 48];
        qs[..32].copy_from_slice(&pack::<32>(&codes[..160]));
        qs[32..].copy_from_slice(&pack::<16>(&codes[160..240]));
        BlockTQ1_0 { qs, qh: pack(&codes[240..]), d }
    }
}
