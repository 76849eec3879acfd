//! Compiles the GPU kernels as C++ for this machine, and a CUDA driver over them.

#[cfg(unix)]
mod fake {
    use std::{fs, os::unix::fs::symlink, path::Path};

    /// A shared library of `sources` in a folder of its own, under every name that is asked for.
    pub fn library(
        build: &cc::Build,
        folder: &Path,
        sources: &[&str],
        kernels: Option<&Path>,
        names: &[&str],
    ) {
        // What an earlier build left would be in the way of links.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).expect("a folder of the build");
        let mut command = build.get_compiler().to_command();
        command
            .args(["-shared", "-fPIC", "-Wl,-Bsymbolic", "-o"])
            .arg(folder.join("libfake.so"))
            .args(sources);
        if let Some(kernels) = kernels {
            command.arg("-Wl,--whole-archive").arg(kernels).arg("-Wl,--no-whole-archive");
        }
        let done = command.status().expect("the C++ compiler runs");
        assert!(done.success(), "the fake driver does not link: {command:?}");
        for name in names {
            symlink("libfake.so", folder.join(name)).expect("a link in a folder of the build");
        }
    }
}

fn main() {
    let kernels = "../gpu/kernels";
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=fake_cuda");
    println!("cargo:rerun-if-changed={kernels}");
    // The only system whose compiler and contexts it was tried with; elsewhere the crate and its tests are empty.
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_none_or(|os| os != "linux") {
        return;
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").file("cpp/emu.cpp").include("cpp").include(kernels);
    // Contraction would round as the host likes. Kernels without optimization are ten times slower in every test.
    build.flag("-ffp-contract=off").opt_level(3).debug(false).pic(true);
    // With the instruction for fma, GCC 12 vectorizes products of few rows so that their last bits are not those of many; not
    // without this pass, and not at lower levels. Other compilers may not know the flag.
    build.flag_if_supported("-fno-tree-slp-vectorize");
    // The same numbers either way: without the instruction, fma is a call.
    #[cfg(target_arch = "x86_64")]
    if std::env::var("TARGET") == std::env::var("HOST")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c")
    {
        build.flag("-mfma").flag("-mf16c");
    }
    build.compile("lamina_emu");
    #[cfg(unix)]
    {
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
        let archive = out.join("liblamina_emu.a");
        let (new, old, nvml) = (out.join("cuda"), out.join("old_cuda"), out.join("nvml"));
        let sources = ["fake_cuda/driver.cpp", "fake_cuda/nvrtc.cpp"];
        fake::library(&build, &new, &sources, Some(archive.as_path()), &["libcuda.so", "libnvrtc.so"]);
        fake::library(&build, &old, &["fake_cuda/old.cpp"], None, &["libcuda.so"]);
        fake::library(&build, &nvml, &["fake_cuda/nvml.cpp"], None, &["libnvidia-ml.so.1"]);
        println!("cargo:rustc-env=LAMINA_FAKE_NVML={}", nvml.display());
        println!("cargo:rustc-env=LAMINA_FAKE_CUDA={}", new.display());
        println!("cargo:rustc-env=LAMINA_OLD_CUDA={}", old.display());
    }
}
