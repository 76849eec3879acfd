//! Kernels under the sanitizers of the C++ compiler: no index beyond an array, no undefined arithmetic, no memory that is gone.
//!
//! A binary of its own: it runs itself again with a sanitized driver and the sanitizer's library in front of all others.
#![cfg(target_os = "linux")]

mod alone;
mod build;

use alone::alone;
use build::{build_driver, compiler};
use lamina_cuda::CudaDevice;
use lamina_gpu::Gpu;
use lamina_oracle::conform::{self, Tolerance};
use std::{path::Path, process::Command};

const PARTS: &[&str] = &[
    "linear 129x256 Q4_K",
    "linear 40x512",
    "embed",
    "attend 8:2",
    "attend sinks",
    "attend q8_0 32",
    "latent 4x32",
    "latent f16",
    "normalize",
    "gated norm",
    "experts s",
    "conv ",
    "delta ",
    "scan ",
    "rotate",
    "low rank",
];

/// Run by name where kernels or the emulator changed.
#[test]
#[ignore = "takes minutes: sanitizers follow fibers by system calls only"]
fn sanitizers_find_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/kernels");
    let options = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    build_driver(folder.path(), &kernels, &options);
    // The library has to come first in a process that was not built with it.
    let library =
        Command::new(compiler()).arg("-print-file-name=libasan.so").output().expect("the compiler runs");
    let library = String::from_utf8_lossy(&library.stdout);
    let settings = [
        ("LD_PRELOAD", library.trim()),
        // What Rust keeps to the end is no leak of the kernels.
        ("ASAN_OPTIONS", "detect_leaks=0"),
        ("UBSAN_OPTIONS", "print_stacktrace=1"),
    ];
    let done = alone("inner_sanitized", folder.path().to_str().expect("a name"), &settings);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

#[test]
#[ignore = "needs a driver's folder in the libraries' path"]
fn inner_sanitized() {
    let device = CudaDevice::open(0).expect("the fake device");
    for part in PARTS {
        let report = conform::run_matching(|| Gpu::new(device.clone()), Tolerance::default(), part);
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{part}: {report}");
    }
}
