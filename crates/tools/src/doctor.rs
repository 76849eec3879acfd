//! What this machine offers.

use lamina::{Device, OnBackend, Result, devices, on_device};
use lamina_base::{DType, available_memory, human_bytes};
use lamina_plan::{About, Backend};
use lamina_simd::Isa;
use serde_json::{Value, json};

/// What the backend says and does.
struct BackendFacts {
    about: About,
    /// Bytes per second.
    bandwidth: Option<f64>,
    /// Names of the types that are multiplied as they are stored.
    native: Vec<&'static str>,
}

struct Look;

impl OnBackend for Look {
    type Out = BackendFacts;

    fn run<B: Backend + 'static>(self, backend: B) -> Result<BackendFacts> {
        let native = DType::ALL.iter().filter(|d| backend.runs_as(**d) == **d);
        Ok(BackendFacts {
            about: backend.about(),
            bandwidth: backend.read_bandwidth()?,
            native: native.map(|d| d.name()).collect(),
        })
    }
}

/// What `lamina doctor` reports: instruction sets, threads, memory and its speed.
///
/// # Errors
/// When `LAMINA_ISA` is wrong or memory for the test is missing.
pub fn doctor() -> Result<Value> {
    let BackendFacts { about, bandwidth, native } = on_device(Device::Auto, None, Look)?;
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "isa": about.kernels,
        "isas": Isa::usable().iter().map(|i| i.name()).collect::<Vec<_>>(),
        "threads": about.threads,
        "logical_cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_available": available_memory(),
        "memory_available_text": available_memory().map(human_bytes),
        "read_bandwidth_gb_s": bandwidth.map(|b| b / 1e9),
        "devices": devices(),
        "native_types": native,
    }))
}
