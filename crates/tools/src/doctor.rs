//! What this machine offers, and whether a device computes right.

use lamina::{
    Device, Result, backend_on, devices,
    disk::{ReaderKind, ReaderRates, cache_folder, probe_readers},
};
use lamina_base::{DType, available_memory, cpu_name, human_bytes};
use lamina_plan::{About, Backend, KernelBits, LeftOutKernels, Memory, ReadSpeed};
use lamina_simd::{Isa, instructions_without_kernels};
use serde_json::{Value, json};
use std::time::Instant;

/// What the backend says and does.
struct BackendFacts {
    about: About,
    memory: Option<Memory>,
    /// How fast its memory is read.
    bandwidth: Option<ReadSpeed>,
    /// Names of the types that are multiplied as they are stored.
    native: Vec<&'static str>,
}

impl BackendFacts {
    fn of(backend: &dyn Backend) -> Result<BackendFacts> {
        let native = DType::ALL.iter().filter(|d| backend.runs_as(**d) == **d);
        Ok(BackendFacts {
            about: backend.about(),
            memory: backend.memory(),
            bandwidth: backend.read_bandwidth()?,
            native: native.map(|d| d.name()).collect(),
        })
    }
}

/// Threads that read a disk, as for a model that is larger than memory.
const READERS: usize = 2;

/// The speed of the disk that panels of weights are kept on; none where nothing can be written or measured there.
fn disk_rates() -> Option<ReaderRates> {
    let folder = cache_folder();
    // It is made when it is first needed.
    let there = folder.ancestors().find(|path| path.is_dir())?;
    probe_readers(there, READERS).ok().flatten()
}

/// What `lamina doctor` reports: instruction sets, threads, memory, the disk of the cache folder, and how fast both are.
///
/// # Errors
/// When `LAMINA_ISA` is wrong or memory for the test is missing.
pub fn doctor() -> Result<Value> {
    let BackendFacts { about, bandwidth, native, .. } = BackendFacts::of(&*backend_on(Device::Cpu, None)?)?;
    let disk = disk_rates();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH),
        "processor": cpu_name(),
        "isa": about.kernels,
        "isas": Isa::usable().iter().map(|i| i.name()).collect::<Vec<_>>(),
        "without_kernels": instructions_without_kernels(),
        "threads": about.threads,
        "logical_cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_available": available_memory(),
        "memory_available_text": available_memory().map(human_bytes),
        // Of memory only: where little is free, caches would answer.
        "read_bandwidth_gb_s": bandwidth.and_then(ReadSpeed::memory_rate).map(|b| b / 1e9),
        "cache_folder": cache_folder(),
        "disk_reader": disk.map(|d| d.faster().name()),
        "disk_read_gb_s": disk.map(|d| d.best() / 1e9),
        "io_uring": ReaderKind::Ring.usable() == ReaderKind::Ring,
        "devices": devices(),
        "native_types": native,
    }))
}

/// Whether kernels give the bits that are kept, in a few words, and which ones were not compared and why.
fn bits_text(bits: &KernelBits) -> String {
    let said = match bits.differ.len() {
        0 => "bits as expected".to_owned(),
        n => format!("other bits of {n} of {} kernels", bits.compared),
    };
    match &bits.left_out {
        Some(LeftOutKernels { names, why }) => {
            let (first, last) = (names.first().map_or("", |n| n), names.last().map_or("", |n| n));
            format!(
                "{said}; {} of {} kernels were not compared, {first} to {last}, which no model runs here: {why}",
                names.len(),
                names.len() + bits.compared
            )
        }
        None => said,
    }
}

/// What `lamina doctor --device` reports: the device, and whether its kernels give the bits that are kept. A GPU is opened by a
/// short self-test, whose failure is the error.
///
/// # Errors
/// When the device cannot be used, or its self-test fails.
pub fn examine(device: Device) -> Result<Value> {
    let backend = backend_on(device, None)?;
    let facts = BackendFacts::of(&*backend)?;
    let start = Instant::now();
    let bits = backend.kernel_bits()?;
    let said = bits.as_ref().map(bits_text);
    let left_out = bits.iter().filter_map(|b| b.left_out.as_ref());
    let none = "no bits are kept of its kernels: nothing was compared";
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": facts.about.device,
        "kernels": facts.about.kernels,
        "memory_free": facts.memory.map(|m| human_bytes(m.free)),
        "memory_total": facts.memory.map(|m| human_bytes(m.total)),
        "copy_bandwidth_gb_s": facts.bandwidth.and_then(ReadSpeed::memory_rate).map(|b| b / 1e9),
        "native_types": facts.native,
        "kernel_bits": said,
        "kernels_compared": bits.as_ref().map_or(0, |b| b.compared),
        "kernels_that_differ": bits.iter().flat_map(|b| &b.differ).collect::<Vec<_>>(),
        "kernels_not_compared": left_out.flat_map(|l| &l.names).collect::<Vec<_>>(),
        "seconds": start.elapsed().as_secs_f64(),
        "passed": bits.as_ref().is_none_or(|b| b.differ.is_empty()),
        "verdict": format!("{}: {}", facts.about.device, said.as_deref().unwrap_or(none)),
    }))
}
