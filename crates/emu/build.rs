//! Compiles the GPU kernels as C++ for this machine.

fn main() {
    let kernels = "../gpu/kernels";
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed={kernels}");
    // The only system whose compiler and contexts it was tried with; elsewhere the crate and its tests are empty.
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_none_or(|os| os != "linux") {
        return;
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").file("cpp/emu.cpp").include("cpp").include(kernels);
    // Contraction would round as the host likes. Kernels without optimization are ten times slower in every test.
    build.flag("-ffp-contract=off").opt_level(3).debug(false);
    // The same numbers either way: without the instruction, fma is a call.
    #[cfg(target_arch = "x86_64")]
    if std::env::var("TARGET") == std::env::var("HOST")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c")
    {
        build.flag("-mfma").flag("-mf16c");
    }
    build.compile("lamina_emu");
}
