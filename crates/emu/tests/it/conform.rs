//! The conformance kit on the emulated GPU: no case is declined.

use crate::common::kit::{in_half, with_parts};
use lamina_emu::{BlockOrder, Emu};
use lamina_gpu::Gpu;
use lamina_oracle::conform::{self, Tolerance};

/// Runs the cases whose name is `wanted`; returns how many there are.
fn conforms(order: BlockOrder, wanted: impl Fn(&str) -> bool) -> usize {
    let report = conform::run_where(|| Gpu::new(Emu::new(order)), Tolerance::default(), wanted);
    println!("{report}");
    report.assert();
    assert!(report.refused.is_empty(), "declined: {:?}", report.refused);
    report.cases
}

#[test]
fn one_half_of_all_cases_conforms() {
    conforms(BlockOrder::Forwards, in_half(0));
}

#[test]
fn the_other_half_of_all_cases_conforms() {
    conforms(BlockOrder::Forwards, in_half(1));
}

/// A missing barrier, or a block that needs another one, shows when the order is turned.
#[test]
fn blocks_and_threads_backwards_conform() {
    let parts = [
        "linear 129x256 Q4_K",
        "attend softcap",
        "attend window 16",
        "attend 8:2",
        "normalize",
        "gated norm",
        "latent 4x32",
        "latent f16",
        "experts s",
        "experts types",
    ];
    assert!(conforms(BlockOrder::Backwards, with_parts(&parts)) > 0, "no case of these names");
}

/// Experts, latents and units of attention in several passes, for want of scratch memory.
#[test]
fn chunks_of_rows_and_passes_over_units_conform() {
    let parts = [
        "attend s",
        "attend f16",
        "attend window",
        "attend full",
        "latent f16",
        "experts b",
        "experts types",
    ];
    let little = || Gpu::new(Emu::default().with_memory(6 << 20));
    let report = conform::run_where(little, Tolerance::default(), with_parts(&parts));
    report.assert();
    assert!(report.cases > 0 && report.refused.is_empty(), "{report}");
}

/// What a device is held against before a model is put on it.
#[test]
fn the_self_test_passes() {
    for order in [BlockOrder::Forwards, BlockOrder::Backwards] {
        lamina_gpu::self_test(&Emu::new(order)).expect("right products");
    }
}
