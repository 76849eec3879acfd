//! The conformance kit on the emulated GPU: every case, none declined.
#![cfg(target_os = "linux")]

use lamina_emu::{BlockOrder, Emu};
use lamina_gpu::Gpu;
use lamina_oracle::conform::{self, Tolerance};

/// Runs the cases whose name contains `part`; threads of the test runner share them out by that.
fn conforms(order: BlockOrder, part: &str) {
    let report = conform::run_matching(|| Gpu::new(Emu::new(order)), Tolerance::default(), part);
    println!("{part}: {report}");
    report.assert();
    assert!(report.refused.is_empty(), "declined: {:?}", report.refused);
}

/// Every case, or those that `LAMINA_KIT` names a part of.
#[test]
fn every_case_conforms() {
    let parts = std::env::var("LAMINA_KIT").unwrap_or_default();
    parts.split(',').for_each(|part| conforms(BlockOrder::Forwards, part));
}

/// A missing barrier, or a block that needs another one, shows when the order is turned.
#[test]
fn blocks_and_threads_backwards_conform() {
    for part in [
        "linear 129x256 Q4_K",
        "attend softcap",
        "attend 8:2",
        "normalize",
        "gated norm",
        "latent 4x32",
        "experts s",
    ] {
        conforms(BlockOrder::Backwards, part);
    }
}

/// Experts, latents and units of attention in several passes, for want of scratch memory.
#[test]
fn chunks_of_rows_and_passes_over_units_conform() {
    for part in ["attend s", "attend f16", "attend window", "attend full", "latent f16", "experts b"] {
        let report = conform::run_matching(
            || Gpu::new(Emu::default().with_memory(6 << 20)),
            Tolerance::default(),
            part,
        );
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{report}");
    }
}

/// What a device is held against before a model is put on it.
#[test]
fn the_self_test_passes() {
    for order in [BlockOrder::Forwards, BlockOrder::Backwards] {
        lamina_gpu::self_test(&Emu::new(order)).expect("right products");
    }
}
