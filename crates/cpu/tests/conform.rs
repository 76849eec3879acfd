//! The CPU backend against the reference, on every instruction set of this machine and several numbers of threads.

use lamina_cpu::Cpu;
use lamina_oracle::conform::{self, Tolerance, scope};
use lamina_simd::Isa;

/// Activations of super-block types share one scale per 256 numbers: half a step is 1/254 of the largest of them, about
/// 1 % of a typical one, and experts multiply two matrices in a row.
fn tolerance() -> Tolerance {
    Tolerance { quantized: 2.5e-2, ..Tolerance::default() }
}

/// The rows that are right are computed once for all: the reference takes as long as the backend.
#[test]
fn every_isa_and_any_number_of_threads_conform() {
    let (best, wanted) = (Isa::detect().expect("an instruction set"), scope::of_this_run());
    for isa in Isa::usable() {
        println!("{isa}");
        conform::run_where(|| Cpu::with_isa(isa, 1), tolerance(), |name| isa == best || wanted(name))
            .assert();
    }
    for threads in [2, 3] {
        let mine = |name: &str| scope::share(name, 2) == threads % 2 || wanted(name);
        conform::run_where(|| Cpu::with_isa(best, threads), tolerance(), mine).assert();
    }
}
