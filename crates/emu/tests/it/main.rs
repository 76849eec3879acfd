//! Kernels for GPUs on the emulator, which is built on Linux.
#![cfg(target_os = "linux")]

mod attend;
mod common;
mod conform;
mod converted;
mod golden;
mod grouped;
mod inside;
mod latent;
#[path = "../../../stream/tests/it/common/on_disk.rs"]
#[expect(clippy::unwrap_used, reason = "of tests of another crate")]
mod on_disk;
mod shards;
mod stages;
mod story;
mod tensor;
mod tiered;
