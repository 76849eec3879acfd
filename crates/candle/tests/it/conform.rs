//! The conformance kit on candle's CPU device.

use lamina_candle::{Candle, MatrixForm};
use lamina_oracle::conform::{self, Tolerance, scope};

/// Cases that the backend declines. Each one would be named here.
const DECLINED: &[&str] = &[];

/// With all numbers as float32.
#[test]
fn the_cases_conform() {
    let make = || Candle::cpu(MatrixForm::Float32);
    let report = conform::run_where(make, Tolerance::default(), scope::of_this_run());
    println!("{report}");
    report.assert();
    let declined: Vec<&str> = report.refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(declined, DECLINED);
    assert!(report.cases > 0, "{report}");
}

/// candle's own kernels for blocks: what a GPU runs with, on the CPU. They round what is multiplied to 8 bits, and the scale of
/// each 32 to float16: three times in a row for an expert (measured: 2.53e-2 for the worst row).
#[test]
fn blocks_of_the_file_conform() {
    let tolerance = Tolerance { quantized: 3e-2, ..Tolerance::default() };
    for part in ["linear", "embed", "project", "glu", "select", "low rank", "experts", "latent"] {
        let report = conform::run_matching(|| Candle::cpu(MatrixForm::Stored), tolerance, part);
        println!("{part}: {report}");
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{:?}", report.refused);
    }
}
