//! The CPU backend against the reference, on every instruction set of this machine and several numbers of threads.

use lamina_cpu::Cpu;
use lamina_fixtures::extent;
use lamina_oracle::conform::{self, Tolerance, scope};
use lamina_simd::Isa;

/// Activations of super-block types share one scale per 256 numbers: half a step is 1/254 of the largest of them, about
/// 1 % of a typical one, and experts multiply two matrices in a row.
fn tolerance() -> Tolerance {
    Tolerance { quantized: 2.5e-2, ..Tolerance::default() }
}

#[test]
fn one_half_of_the_cases_conforms() {
    conforms(0);
}

#[test]
fn the_other_half_of_the_cases_conforms() {
    conforms(1);
}

/// Every case on the best instruction set, by day with one of three numbers of threads, by night with all; those of this run
/// on the other sets. The rows that are right are computed once for all: the reference takes as long as the backend.
fn conforms(half: usize) {
    let (best, wanted) = (Isa::detect().expect("an instruction set"), scope::of_this_run());
    for threads in 1..=3 {
        let mine = |name: &str| match scope::share(name, 6) {
            share if share % 2 != half => false,
            share => extent::is_whole() || share / 2 == threads - 1,
        };
        conform::run_where(|| Cpu::with_isa(best, threads), tolerance(), mine).assert();
    }
    for isa in Isa::usable().into_iter().filter(|&isa| isa != best) {
        println!("{isa}");
        let mine = |name: &str| scope::share(name, 2) == half && wanted(name);
        conform::run_where(|| Cpu::with_isa(isa, 1), tolerance(), mine).assert();
    }
}
