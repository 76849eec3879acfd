//! Weights and caches in several places: on a device, in memory, on disk.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod common;
mod experts;
mod layer_paged;
mod prefetch;
mod sent_experts;
mod tiered;
