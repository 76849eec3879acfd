//! A driver that is built by a test, of other kernels or with other options than the fake driver of the emulator's build.

use std::{env, ffi::OsString, fs, path::Path, process::Command};

/// The C++ compiler.
pub fn compiler() -> OsString {
    env::var_os("CXX").unwrap_or_else(|| "c++".into())
}

/// Builds `libcuda.so` and `libnvrtc.so` in `folder`, over the kernels in another one.
pub fn build_driver(folder: &Path, kernels: &Path, options: &[&str]) {
    let emu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../emu");
    let mut command = Command::new(compiler());
    command.args(["-std=c++20", "-ffp-contract=off", "-fPIC", "-shared", "-Wl,-Bsymbolic"]).args(options);
    // As the emulator's build has it: fma is a call without the instruction, and vectorized by halves with it.
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        command.args(["-mfma", "-mf16c", "-fno-tree-slp-vectorize"]);
    }
    command.arg("-I").arg(kernels).arg("-I").arg(emu.join("cpp"));
    command.arg("-o").arg(folder.join("libcuda.so"));
    command.args(["cpp/emu.cpp", "fake_cuda/driver.cpp", "fake_cuda/nvrtc.cpp"].map(|file| emu.join(file)));
    let done = command.output().expect("the C++ compiler runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::copy(folder.join("libcuda.so"), folder.join("libnvrtc.so")).expect("a copy");
}
