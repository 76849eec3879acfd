//! Types of one number per element that Lamina reads but does not write.

use lamina_base::DType;

use crate::le::F16Le;

/// Decodes whole elements of a plain type that is not in the list of formats.
///
/// # Panics
/// When `dtype` is a block format; [`crate::decode`] asks the list first.
pub(crate) fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        DType::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
        DType::F8_E4M3 => each(bytes, out, |[b]| e4m3(b)),
        DType::F8_E5M2 => each(bytes, out, |[b]| e5m2(b)),
        DType::F8_E8M0 => each(bytes, out, |[b]| e8m0(b)),
        DType::I8 => each(bytes, out, |b| f32::from(i8::from_le_bytes(b))),
        DType::I16 => each(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
        DType::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
        DType::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
        DType::U8 => each(bytes, out, |[b]| f32::from(b)),
        DType::U16 => each(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
        DType::U32 => each(bytes, out, |b| u32::from_le_bytes(b) as f32),
        DType::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f32),
        DType::Bool => each(bytes, out, |[b]| f32::from(b != 0)),
        other => unreachable!("{other} is a block format"),
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    out.iter_mut().zip(elements).for_each(|(o, &e)| *o = value(e));
}

/// OCP 8-bit float e4m3fn: bias 7, no infinities, NaN where all exponent and mantissa bits are set.
pub(crate) fn e4m3(b: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(b >> 3 & 15), f32::from(b & 7));
    let magnitude = match (exponent, b & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * power_of_two(-9),
        _ => (8.0 + mantissa) * power_of_two(exponent - 10),
    };
    if b & 0x80 == 0 { magnitude } else { -magnitude }
}

/// OCP 8-bit float e5m2: the upper byte of a half.
fn e5m2(b: u8) -> f32 {
    F16Le::from_bits(u16::from(b) << 8).to_f32()
}

/// OCP 8-bit exponent: 2^(b - 127), and 255 is NaN.
fn e8m0(b: u8) -> f32 {
    match b {
        255 => f32::NAN,
        0 => f32::from_bits(1 << 22),
        _ => power_of_two(i32::from(b) - 127),
    }
}

/// 2^n for normal results, -126 <= n <= 127.
pub(crate) const fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_at_their_landmarks() {
        assert_eq!([0x00, 0x01, 0x08, 0x38, 0x7E].map(e4m3), [0.0, 0.001953125, 0.015625, 1.0, 448.0]);
        assert_eq!([0x80, 0xB8, 0xFE].map(e4m3), [0.0, -1.0, -448.0]);
        assert!(e4m3(0x7F).is_nan() && e4m3(0xFF).is_nan());
        assert_eq!(
            [0x01, 0x3C, 0x7B, 0x7C, 0xC0].map(e5m2),
            [2f32.powi(-16), 1.0, 57344.0, f32::INFINITY, -2.0]
        );
        assert_eq!([0, 127, 254].map(e8m0), [2f32.powi(-127), 1.0, 2f32.powi(127)]);
        assert!(e8m0(255).is_nan());
    }

    #[test]
    fn integers_and_doubles_round_to_nearest() {
        let mut out = [0.0; 2];
        decode(DType::I64, bytemuck::cast_slice(&[-1i64, (1 << 24) + 1]), &mut out);
        assert_eq!(out, [-1.0, 16777216.0]);
        decode(DType::F64, bytemuck::cast_slice(&[0.1f64, 1e300]), &mut out);
        assert_eq!(out, [0.1, f32::INFINITY]);
        decode(DType::Bool, &[0, 1], &mut out);
        assert_eq!(out, [0.0, 1.0]);
    }
}
