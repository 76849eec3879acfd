//! What is written from other formats, and that it says what its source says.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

#[allow(dead_code, reason = "tests of plans use more")]
#[path = "../../../plan/tests/it/common.rs"]
mod common;
mod golden;
mod kv_heads;
mod lora;
mod made;
mod mmproj;
mod peer;
mod quantize;
mod shards;
