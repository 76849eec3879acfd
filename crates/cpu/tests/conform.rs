//! The CPU backend against the reference, on every instruction set of this machine and several numbers of threads.

use lamina_cpu::Cpu;
use lamina_oracle::conform::{self, Tolerance};
use lamina_simd::Isa;

/// Activations of super-block types share one scale per 256 numbers: half a step is 1/254 of the largest of them, about
/// 1 % of a typical one, and experts multiply two matrices in a row.
fn tolerance() -> Tolerance {
    Tolerance { quantized: 2.5e-2, ..Tolerance::default() }
}

#[test]
fn every_isa_conforms() {
    for isa in Isa::usable() {
        println!("{isa}");
        conform::run(|| Cpu::with_isa(isa, 1), tolerance()).assert();
    }
}

#[test]
fn any_number_of_threads_conforms() {
    for threads in [2, 3] {
        conform::run(|| Cpu::with_isa(Isa::detect().expect("an instruction set"), threads), tolerance())
            .assert();
    }
}
