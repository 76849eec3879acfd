//! Odd values and wrong sizes: nothing panics, nothing becomes infinite, errors name the type and the numbers.

use lamina_base::{Bytes, DType, HostTensor};
use lamina_quant::{FORMATS, QuantError, decode, encode, format, to_f32};
use proptest::{collection::vec, prelude::*};

/// Finite values of all sizes, with those that searches stumble over: zeros of both signs, subnormal and huge numbers,
/// equal neighbours.
fn odd() -> impl Strategy<Value = f32> {
    prop_oneof![
        3 => any::<f32>().prop_filter("finite", |v| v.is_finite()),
        3 => -1f32..1.0,
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 65504.0, 6e-8]),
    ]
}

fn row(n: usize) -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        vec(odd(), n),
        odd().prop_map(move |v| vec![v; n]),
        (vec(-1f32..1.0, n), -140i32..120).prop_map(|(x, e)| x.iter().map(|v| v * 2f32.powi(e)).collect()),
        (vec(odd(), n), vec(any::<bool>(), n)).prop_map(|(x, keep)| {
            x.iter().zip(keep).map(|(v, keep)| if keep { *v } else { 0.0 }).collect()
        }),
    ]
}

fn quantized() -> impl Iterator<Item = DType> {
    FORMATS.iter().map(|f| f.dtype()).filter(|t| t.is_quantized())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn finite_values_stay_finite_and_of_their_size(
        x in row(512),
        importance in proptest::option::of(vec(prop_oneof![0f32..1.0, Just(0.0), Just(f32::MAX), Just(1e-45)], 256)),
    ) {
        for dtype in quantized() {
            let mut bytes = vec![0; dtype.bytes_for(x.len()).expect("whole blocks")];
            encode(dtype, &x, importance.as_deref(), &mut bytes).expect("finite values");
            let mut y = vec![0.0; x.len()];
            decode(dtype, &bytes, &mut y).expect("whole blocks");
            for (x, y) in x.chunks(dtype.block_len()).zip(y.chunks(dtype.block_len())) {
                // Least squares may overshoot the largest value, never double it. A scale may be off by half of the
                // smallest half, 2^-25, and Q8_0 multiplies that by 127.
                let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
                let bound = f64::from(largest) * 2.0 + 127.0 * 2f64.powi(-25);
                for (i, y) in y.iter().enumerate() {
                    prop_assert!(f64::from(y.abs()) <= bound, "{dtype}: element {i} is {y}, bound {bound}");
                }
            }
        }
    }

    #[test]
    fn any_bytes_decode(bytes in vec(any::<u8>(), 0..2000)) {
        for format in FORMATS {
            let (dtype, block) = (format.dtype(), format.dtype().block_bytes());
            let whole = bytes.len() / block;
            let mut y = vec![0.0; whole * dtype.block_len()];
            // From an odd address too: blocks are read where they lie.
            for start in [0, bytes.len() - whole * block] {
                prop_assert!(decode(dtype, &bytes[start..][..whole * block], &mut y).is_ok());
            }
        }
    }

    #[test]
    fn values_that_are_not_finite_are_named(at in 0usize..256, bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY])) {
        let mut x = vec![0.5; 256];
        x[at] = bad;
        for dtype in quantized() {
            let mut bytes = vec![0; dtype.bytes_for(256).expect("whole blocks")];
            let error = encode(dtype, &x, None, &mut bytes).expect_err("not finite");
            let named = matches!(error, QuantError::NotFinite { index, .. } if index == at);
            prop_assert!(named, "{error:?}");
            let text = error.to_string();
            prop_assert!(text.contains(dtype.name()) && text.contains(&at.to_string()), "{text}");
        }
    }
}

#[test]
fn plain_floats_keep_infinities_and_nan() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let mut bytes = vec![0; dtype.bytes_for(3).expect("plain")];
        encode(dtype, &[f32::NAN, f32::INFINITY, -1e38], None, &mut bytes).expect("floats hold these");
        let mut y = [0.0; 3];
        decode(dtype, &bytes, &mut y).expect("whole blocks");
        assert!(y[0].is_nan() && y[1] == f32::INFINITY && y[2] < -9e37, "{dtype}: {y:?}");
    }
}

#[test]
fn zeros_come_back_as_zeros() {
    for dtype in FORMATS.iter().map(|f| f.dtype()) {
        for zero in [0.0, -0.0, 1e-40] {
            let mut bytes = vec![0xAA; dtype.bytes_for(256).expect("whole blocks")];
            encode(dtype, &[zero; 256], None, &mut bytes).expect("finite");
            let mut y = [1.0; 256];
            decode(dtype, &bytes, &mut y).expect("whole blocks");
            assert!(y.iter().all(|v| v.abs() <= 1e-39), "{dtype}");
        }
    }
}

#[test]
fn rows_are_encoded_one_by_one_with_the_same_importance() {
    let row: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let importance: Vec<f32> = (0..512).map(|i| 1.0 / (1 + i % 7) as f32).collect();
    for dtype in FORMATS.iter().map(|f| f.dtype()) {
        let size = dtype.bytes_for(512).expect("whole blocks");
        let (mut once, mut twice) = (vec![0; size], vec![0; 2 * size]);
        encode(dtype, &row, Some(&importance), &mut once).expect("finite");
        encode(dtype, &[&row[..], &row].concat(), Some(&importance), &mut twice).expect("finite");
        assert!(twice == [&once[..], &once].concat(), "{dtype}");
    }
}

#[test]
fn wrong_sizes_name_the_type_and_the_numbers() {
    let error = |e: Result<(), QuantError>| e.expect_err("wrong size").to_string();
    let mut y = [0.0; 32];
    assert_eq!(
        error(decode(DType::Q4_0, &[0; 17], &mut y)),
        "Q4_0: 17 bytes are no whole number of 18-byte blocks"
    );
    assert_eq!(
        error(decode(DType::Q4_0, &[0; 36], &mut y)),
        "Q4_0: 32 elements take 18 bytes, but 36 bytes are there"
    );
    let e = error(encode(DType::Q4_K, &[0.0; 300], None, &mut [0; 144]));
    assert_eq!(e, "Q4_K: 300 elements take whole blocks of 256 elements, but 144 bytes are there");
    for importance in [&[1.0; 48][..], &[], &[1.0; 128]] {
        let e = error(encode(DType::Q4_0, &[0.0; 64], Some(importance), &mut [0; 36]));
        assert!(e.contains("Q4_0") && e.contains(&format!("{} columns", importance.len())), "{e}");
    }
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        let mut importance = [1.0; 32];
        importance[9] = bad;
        let e = error(encode(DType::Q4_0, &[0.0; 32], Some(&importance), &mut [0; 18]));
        assert!(e.contains("column 9"), "{e}");
    }
    assert!(error(encode(DType::I32, &[0.0], None, &mut [0; 4])).contains("I32"));
}

#[test]
fn tensors_of_every_type_become_floats() {
    for &dtype in DType::ALL {
        let cols = dtype.block_len() * 2;
        let bytes = vec![0; 3 * dtype.bytes_for(cols).expect("whole blocks")];
        let tensor = HostTensor::new("t", dtype, vec![3, cols], Bytes::from(bytes)).expect("sizes fit");
        let y = to_f32(&tensor).expect("sizes fit");
        assert!(y.len() == 3 * cols && y.iter().all(|v| v.abs() < 1e-37), "{dtype}");
        assert!(format(dtype).is_none_or(|f| f.dtype() == dtype));
    }
    let empty = HostTensor::new("t", DType::Q4_K, vec![0, 256], Bytes::from(vec![])).expect("sizes fit");
    assert_eq!(to_f32(&empty), Ok(vec![]));
}

#[test]
fn a_tensor_whose_shape_lies_is_refused_before_memory_is_asked_for() {
    for shape in [vec![usize::MAX, 256], vec![1 << 40, 256], vec![2, 128]] {
        let tensor = HostTensor { name: "t".into(), dtype: DType::Q4_K, shape, bytes: vec![0; 144].into() };
        assert!(to_f32(&tensor).is_err());
    }
}
