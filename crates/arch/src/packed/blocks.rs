//! Block types that hold a packed weight without rounding its values.

use super::codes::{CodeKind, Coded};
use half::f16;
use lamina_base::DType;

/// Types with kernels that packed weights can be laid out as, smallest first.
pub(crate) const EXACT: &[DType] = &[DType::MXFP4, DType::Q4_0, DType::Q5_0, DType::F8_E4M3, DType::Q8_0];

/// Whole numbers that a block type holds beside its scale.
fn steps(dtype: DType) -> Option<(f32, f32)> {
    match dtype {
        DType::Q4_0 => Some((-8.0, 7.0)),
        DType::Q5_0 => Some((-16.0, 15.0)),
        DType::Q8_0 => Some((-128.0, 127.0)),
        _ => None,
    }
}

/// True when `dtype` holds the values of `w`.
///
/// The scales of Q4_0, Q5_0 and Q8_0 are float16. Scales of another type are rounded to it, which moves no value by more
/// than 2^-12 of itself: as much as float16 weights would, at two to four times the size.
pub(crate) fn fits(w: &Coded, dtype: DType) -> bool {
    match dtype {
        DType::F8_E4M3 => {
            w.meaning.kind == CodeKind::E4M3 && w.zeros.is_empty() && w.scales.iter().all(|s| *s == 1.0)
        }
        DType::MXFP4 => {
            let powers = || w.scales.iter().all(|s| exponent(*s).is_some());
            w.meaning.kind == CodeKind::E2M1
                && w.zeros.is_empty()
                && w.groups.whole_blocks(w.cols)
                && powers()
        }
        _ => steps(dtype).is_some_and(|range| {
            let inside = |(low, high): (f32, f32)| low >= range.0 && high <= range.1;
            w.groups.whole_blocks(w.cols)
                && reach(w).is_some_and(inside)
                && w.scales.iter().all(|s| is_half(*s))
        }),
    }
}

/// Smallest and largest number of steps, where all are whole.
fn reach(w: &Coded) -> Option<(f32, f32)> {
    let (low, high) = w.meaning.range()?;
    let whole = w.zeros.iter().all(|z| z.fract() == 0.0);
    let most = w.zeros.iter().copied().reduce(f32::max).unwrap_or(0.0);
    let least = w.zeros.iter().copied().reduce(f32::min).unwrap_or(0.0);
    whole.then_some((low - most, high - least))
}

/// True when float16 holds `scale` with its full precision, or exactly.
fn is_half(scale: f32) -> bool {
    let normal = (f16::MIN_POSITIVE.to_f32()..=f16::MAX.to_f32()).contains(&scale.abs());
    normal || f16::from_f32(scale).to_f32() == scale
}

/// The e8m0 byte of a power of two.
fn exponent(scale: f32) -> Option<u8> {
    match scale.to_bits() {
        // 2^-127, which has no normal float.
        0x0040_0000 => Some(0),
        bits if bits & 0x807F_FFFF == 0 && bits != 0 => Some((bits >> 23) as u8),
        _ => None,
    }
}

/// Encodes one row from its codes as `dtype`, which [`fits`].
pub(crate) fn encode(w: &Coded, dtype: DType, row: u32, codes: &[u8], out: &mut [u8]) {
    if dtype == DType::F8_E4M3 {
        return out.copy_from_slice(codes);
    }
    let blocks = codes.as_chunks::<32>().0.iter().zip(out.chunks_exact_mut(dtype.block_bytes()));
    for (i, (codes, out)) in blocks.enumerate() {
        let (scale, zero) = w.scale(w.groups.at(row as usize, 32 * i, w.cols).0);
        let step = |code: u8| (w.meaning.values[usize::from(code)] - zero) as i32;
        let half = f16::from_f32(scale).to_le_bytes();
        match dtype {
            DType::MXFP4 => {
                out[0] = exponent(scale).unwrap_or(0);
                nibbles(codes, &mut out[1..]);
            }
            DType::Q4_0 => {
                out[..2].copy_from_slice(&half);
                nibbles(&codes.map(|c| (step(c) + 8) as u8), &mut out[2..]);
            }
            DType::Q5_0 => {
                let codes = codes.map(|c| (step(c) + 16) as u8);
                let fifth = (0..32).fold(0u32, |bits, i| bits | u32::from(codes[i] >> 4) << i);
                out[..2].copy_from_slice(&half);
                out[2..6].copy_from_slice(&fifth.to_le_bytes());
                nibbles(&codes, &mut out[6..]);
            }
            _ => {
                out[..2].copy_from_slice(&half);
                out[2..].copy_from_slice(&codes.map(|c| step(c) as i8 as u8));
            }
        }
    }
}

/// Element `i` in the low nibble of byte `i`, element `i + 16` in the high one.
fn nibbles(codes: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = codes[i] & 15 | codes[i + 16] << 4;
    }
}
