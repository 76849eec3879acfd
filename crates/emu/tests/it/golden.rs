//! Golden bits: the hashes that are kept are those of the kernels as they are.

use lamina_emu::{BlockOrder, Emu};
use lamina_gpu::{golden_hashes, golden_text, kernel_hashes};
use std::{collections::BTreeSet, fs};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/golden.txt");
const RENEW: &str = "LAMINA_GOLDEN=write cargo test -p lamina-emu --test it golden::";

/// A kernel that gives other bits than before gives them on every device. Where that is meant, the hashes are written anew.
#[test]
fn every_kernel_gives_the_bits_that_are_kept() {
    let got = kernel_hashes(&Emu::default()).expect("the emulator runs them");
    if std::env::var_os("LAMINA_GOLDEN").is_some_and(|v| v == "write") {
        fs::write(KEPT, golden_text(&got)).expect("the file of hashes");
        return;
    }
    let kept = golden_hashes();
    let names: BTreeSet<_> = got.keys().chain(kept.keys()).collect();
    let differ: Vec<_> = names.into_iter().filter(|name| got.get(*name) != kept.get(*name)).collect();
    assert!(
        differ.is_empty(),
        "other bits than crates/gpu/golden.txt has: {differ:?}; if that is meant: {RENEW}"
    );
}

#[test]
fn bits_do_not_depend_on_the_order_of_blocks_and_threads() {
    let [forwards, backwards] = [BlockOrder::Forwards, BlockOrder::Backwards]
        .map(|order| kernel_hashes(&Emu::new(order)).expect("the emulator runs them"));
    assert_eq!(forwards, backwards);
}

/// A kernel without a hash would not be compared on any device.
#[test]
fn every_kernel_of_the_list_is_hashed() {
    let list = include_str!("../../../gpu/kernels/list.h");
    let name = |line: &'static str| line.strip_prefix("KERNEL_LINE(")?.split(',').next();
    let listed: BTreeSet<_> = list.lines().filter_map(name).collect();
    let hashed: BTreeSet<_> =
        kernel_hashes(&Emu::default()).expect("the emulator runs them").into_keys().collect();
    assert_eq!(hashed, listed);
}
