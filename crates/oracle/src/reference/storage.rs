//! Numbers as the cache keeps them: rounded through its type and back.

use lamina_base::DType;
use lamina_plan::kv::KvType;
use lamina_quant::{decode, encode};

/// Numbers per block of the quantized cache types.
const BLOCK: usize = 32;

/// Largest float16 value.
const F16_MAX: f32 = 65504.0;

/// Largest e4m3 value.
const F8_MAX: f32 = 448.0;

/// The row of one head after a trip through the cache. A last partial block is filled up with zeros; what is too large
/// for float16 and e4m3 becomes their largest number.
pub fn round(kv_type: KvType, head: &[f32]) -> Vec<f32> {
    match kv_type {
        KvType::F32 => head.to_vec(),
        KvType::F8 => head.iter().map(|&x| e4m3(x)).collect(),
        KvType::F16 => {
            through(DType::F16, &head.iter().map(|x| x.clamp(-F16_MAX, F16_MAX)).collect::<Vec<_>>())
        }
        _ => {
            let mut filled = head.to_vec();
            filled.resize(head.len().next_multiple_of(BLOCK), 0.0);
            let mut out = through(kv_type.dtype(), &filled);
            out.truncate(head.len());
            out
        }
    }
}

fn through(dtype: DType, x: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; x.len() / dtype.block_len() * dtype.block_bytes()];
    let mut out = vec![0.0; x.len()];
    match encode(dtype, x, None, &mut bytes).and_then(|()| decode(dtype, &bytes, &mut out)) {
        Ok(()) => out,
        // Blocks hold no infinities: a model that computes them has lost the row.
        Err(_) => vec![f32::NAN; x.len()],
    }
}

/// The nearest e4m3 number, cut to the largest; halfway the one with the even mantissa. NaN stays NaN.
fn e4m3(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    let magnitude = x.abs().min(F8_MAX);
    let step = if magnitude < 2f32.powi(-6) {
        2f32.powi(-9)
    } else {
        2f32.powi(magnitude.log2().floor() as i32 - 3)
    };
    ((magnitude / step).round_ties_even() * step).min(F8_MAX).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_e4m3_keeps_its_value_and_others_go_to_the_nearest() {
        for code in 0..=0xFEu8 {
            let mut value = [0.0];
            decode(DType::F8_E4M3, &[code], &mut value).expect("one number");
            assert!(value[0].is_nan() || e4m3(value[0]) == value[0], "{code}");
        }
        assert_eq!([e4m3(1.0625), e4m3(1.1875), e4m3(1e9), e4m3(-0.0001)], [1.0, 1.25, 448.0, -0.0]);
    }

    #[test]
    fn partial_blocks_are_rounded_like_whole_ones() {
        let x: Vec<f32> = (0..40).map(|i| i as f32).collect();
        let out = round(KvType::Q8_0, &x);
        assert_eq!(out.len(), 40);
        assert!(x.iter().zip(&out).all(|(a, b)| (a - b).abs() <= 39.0 / 254.0 + 1e-2));
    }
}
