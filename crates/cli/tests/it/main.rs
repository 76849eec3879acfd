//! The command as a user runs it.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod chat;
mod common;
mod completion;
mod convert;
#[cfg(target_os = "linux")]
mod cuda;
mod errors;
mod lora;
#[cfg(target_os = "linux")]
mod memory;
mod names;
mod packaged;
mod pictures;
mod reports;
mod run;
mod server;
mod sounds;
