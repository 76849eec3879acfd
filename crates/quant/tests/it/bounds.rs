//! decode(encode(x)) stays near x: error bounds per type, with their reasons.

use crate::support::SplitMix64;
use lamina_base::DType;
use lamina_quant::{decode, encode};

fn round_trip(dtype: DType, x: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut bytes = vec![0; dtype.bytes_for(x.len()).expect("whole blocks")];
    encode(dtype, x, importance, &mut bytes).expect("finite values");
    let mut y = vec![0.0; x.len()];
    decode(dtype, &bytes, &mut y).expect("whole blocks");
    y
}

fn normal_rows() -> Vec<f32> {
    let mut stream = SplitMix64(3);
    (0..64 * 1024).map(|_| stream.normal() as f32).collect()
}

fn relative_error(x: &[f32], y: &[f32], weight: impl Fn(usize) -> f64) -> f64 {
    let sum = |f: &dyn Fn(usize) -> f64| (0..x.len()).map(|i| weight(i) * f(i)).sum::<f64>();
    let error = sum(&|i| f64::from(x[i] - y[i]).powi(2));
    (error / sum(&|i| f64::from(x[i]).powi(2))).sqrt()
}

/// No code of b bits per value brings the relative error of normal values below 2^-b (Shannon's rate-distortion
/// bound). How near a format comes is a property of it: codebooks 1.3 to 1.5, searched scales 1.4 to 1.7, a
/// scale from the largest value alone 1.9, and with a minimum, which symmetric values do not need, 2.5.
#[test]
fn error_of_normal_values_is_near_the_bound_of_information_theory() {
    use DType::*;
    let x = normal_rows();
    let formats = [
        (1.5, &[IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_XS, Q1_0][..]),
        (1.7, &[IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K]),
        (2.0, &[Q4_0, Q5_0, Q8_0, NVFP4]),
        (2.6, &[Q4_1, Q5_1, MXFP4]),
    ];
    for (factor, dtypes) in formats {
        for &dtype in dtypes {
            let limit = 2f64.powf(-f64::from(dtype.bits()));
            let error = relative_error(&x, &round_trip(dtype, &x, None), |_| 1.0);
            assert!(error < factor * limit, "{dtype}: {error:.4}, {:.3} times the limit", error / limit);
            assert!(error > limit, "{dtype}: {error:.4} is below the limit, so the measure is wrong");
        }
    }
}

/// With weights that differ by orders of magnitude, the weighted error must fall clearly: by a tenth at least.
#[test]
fn importance_moves_the_error_to_where_it_matters_less() {
    use DType::*;
    let x = normal_rows();
    let mut stream = SplitMix64(4);
    let importance: Vec<f32> = (0..1024).map(|_| (1.5 * stream.normal()).exp() as f32).collect();
    for dtype in [
        Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS,
        IQ3_S, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, NVFP4,
    ] {
        let weighted = |y: &[f32]| relative_error(&x, y, |i| f64::from(importance[i % 1024]));
        let without = weighted(&round_trip(dtype, &x, None));
        let with = weighted(&round_trip(dtype, &x, Some(&importance)));
        assert!(with < 0.9 * without, "{dtype}: {with:.4} with importance, {without:.4} without");
    }
}

/// Each element on its own, for the types whose rule fixes the scale: half a step, and the rounding of the scale to a
/// half (2^-11 of the value; 2^-11 of the largest for what is counted from a minimum).
#[test]
fn elements_stay_within_half_a_step() {
    let x = normal_rows();
    let steps = [
        (DType::Q8_0, 127.0, 0.5),
        (DType::Q4_1, 15.0, 0.5),
        (DType::Q5_1, 31.0, 0.5),
        (DType::Q4_0, 8.0, 1.0),
        (DType::Q5_0, 16.0, 1.0),
    ];
    for (dtype, count, share) in steps {
        let y = round_trip(dtype, &x, None);
        for (x, y) in x.chunks(32).zip(y.chunks(32)) {
            let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
            let range = x.iter().fold(f32::MIN, |m, v| m.max(*v)) - x.iter().fold(f32::MAX, |m, v| m.min(*v));
            // The symmetric 4- and 5-bit types lack the positive end: there the error is up to a whole step.
            let step = if dtype == DType::Q4_1 || dtype == DType::Q5_1 { range } else { largest } / count;
            let bound = step * share + 2.0 * largest.max(range) / 2048.0;
            for (x, y) in x.iter().zip(y) {
                assert!((x - y).abs() <= bound, "{dtype}: {x} became {y}, bound {bound}");
            }
        }
    }
}

/// Where the scale of the scales is a coarse half, or would be zero, larger sub-scales make up for it.
#[test]
fn small_values_survive_coarse_scales() {
    use DType::*;
    let x: Vec<f32> = normal_rows().iter().map(|v| v * 4e-6).collect();
    for (dtype, bound) in
        [(Q2_K, 0.3), (Q3_K, 0.2), (Q4_K, 0.1), (Q5_K, 0.1), (Q6_K, 0.1), (IQ4_XS, 0.15), (IQ3_S, 0.2)]
    {
        let error = relative_error(&x, &round_trip(dtype, &x, None), |_| 1.0);
        assert!(error < bound, "{dtype}: {error:.4}");
    }
}

/// Floats keep their leading bits: 11 of a half, 8 of a bfloat16.
#[test]
fn floats_keep_their_digits() {
    let x = normal_rows();
    assert_eq!(round_trip(DType::F32, &x, None), x);
    for (dtype, bits) in [(DType::F16, 11), (DType::BF16, 8)] {
        for (x, y) in x.iter().zip(round_trip(dtype, &x, None)) {
            // 2^-25: half of a half's smallest step.
            assert!((x - y).abs() <= x.abs() * 2f32.powi(-bits) + 2f32.powi(-25), "{dtype}: {x} became {y}");
        }
    }
}

/// What a model trained for a format holds comes back as it was.
#[test]
fn values_on_the_grid_are_exact() {
    let mut stream = SplitMix64(5);
    let mut of = |levels: &[f32]| -> Vec<f32> {
        (0..1024).map(|_| levels[stream.next() as usize % levels.len()] * 0.25).collect()
    };
    let ternary = of(&[-1.0, 0.0, 1.0]);
    assert_eq!(round_trip(DType::TQ1_0, &ternary, None), ternary);
    assert_eq!(round_trip(DType::TQ2_0, &ternary, None), ternary);
    assert_eq!(round_trip(DType::TQ2_0, &ternary, Some(&[1.0; 1024])), ternary);
    let signs = of(&[-1.0, 1.0]);
    assert_eq!(round_trip(DType::Q1_0, &signs, None), signs);
    let e2m1 = of(&[0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]);
    assert_eq!(round_trip(DType::MXFP4, &e2m1, None), e2m1);
    assert_eq!(round_trip(DType::NVFP4, &e2m1, None), e2m1);
}
