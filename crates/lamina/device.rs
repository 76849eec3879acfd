//! Devices by name, and what this machine has.

use crate::{
    error::{Error, Result},
    threads::default_threads,
};
use lamina_base::{available_memory, human_bytes};
use lamina_cpu::{Cpu, read_bandwidth};
use lamina_simd::Isa;
use serde_json::{Value, json};
use std::str::FromStr;

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The fastest that there is.
    Auto,
    /// The processor.
    Cpu,
}

/// Names that [`Device`] reads.
pub fn devices() -> &'static [&'static str] {
    &["auto", "cpu"]
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(s: &str) -> Result<Device> {
        match s {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            _ if s.starts_with("cuda") || s == "metal" => Err(Error::Unsupported(format!(
                "device `{s}`: this build runs on the CPU only; use device=\"cpu\""
            ))),
            _ => Err(Error::InvalidRequest(format!("unknown device `{s}`; known: {}", devices().join(" ")))),
        }
    }
}

/// What `lamina doctor` reports: instruction sets, threads, memory and its speed.
///
/// # Errors
/// When `LAMINA_ISA` is wrong or memory for the test is missing.
pub fn doctor() -> Result<Value> {
    let cpu = Cpu::new(default_threads())?;
    let bandwidth = read_bandwidth(cpu.pool(), cpu.isa())?;
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "isa": cpu.isa().name(),
        "isas": Isa::usable().iter().map(|i| i.name()).collect::<Vec<_>>(),
        "threads": cpu.pool().threads(),
        "logical_cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_available": available_memory(),
        "memory_available_text": available_memory().map(human_bytes),
        "read_bandwidth_gb_s": bandwidth / 1e9,
        "devices": devices(),
        "native_types": Cpu::native_types().iter().map(|t| t.name()).collect::<Vec<_>>(),
    }))
}
