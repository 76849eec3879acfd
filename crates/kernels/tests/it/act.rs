//! Quantized activations: the same bytes on every instruction set, and nothing is hidden by a scale.

use bytemuck::Zeroable;
use lamina_kernels::{Act32, Act256, ActKind, RowKernels};
use lamina_simd::Isa;

/// A row of 32 numbers as one block.
fn block(isa: Isa, x: &[f32; 32]) -> Act32 {
    // What was there before is overwritten.
    let mut out = [Act32 { q: [1; 32], d: 1.0, sum: 1, low: 1 }];
    RowKernels::new(isa).quantize(ActKind::Int32, x, 0, 1, bytemuck::cast_slice_mut(&mut out));
    out[0]
}

#[test]
fn every_isa_quantizes_to_the_same_bytes() {
    let x: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.37).collect();
    let run = |isa| {
        let mut out = [Act256::zeroed(); 2];
        RowKernels::new(isa).quantize(ActKind::Int256, &x, 0, 1, bytemuck::cast_slice_mut(&mut out));
        out
    };
    let want = run(Isa::Scalar);
    let bytes = |blocks: [Act256; 2]| bytemuck::bytes_of(&blocks).to_vec();
    assert!(Isa::usable().into_iter().all(|isa| bytes(run(isa)) == bytes(want)));
    let sum: i32 = want[0].q.iter().map(|&q| i32::from(q)).sum();
    assert_eq!(want[0].sum32.iter().map(|&s| i32::from(s)).sum::<i32>(), sum);
}

#[test]
fn zeros_have_scale_zero() {
    let zeros = block(Isa::Scalar, &[0.0; 32]);
    assert_eq!((zeros.q, zeros.d, zeros.sum, zeros.low), ([0; 32], 0.0, 0, 0));
}

#[test]
fn nan_and_infinity_stay_visible_wherever_they_stand() {
    for isa in Isa::usable() {
        for (at, v) in (0..32).flat_map(|at| [(at, f32::NAN), (at, f32::INFINITY), (at, f32::NEG_INFINITY)]) {
            let mut x = [1.0; 32];
            x[at] = v;
            assert!(block(isa, &x).d.is_nan(), "{isa}: {v} at {at}");
        }
    }
}
