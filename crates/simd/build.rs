//! Which instruction sets kernels are built for: all of the target's where others will run them, and in development those
//! that this machine can run, since each set is a further copy of every kernel, compiled at full optimization.

use std::env;

/// Sets of a target's architecture, each with what this machine must have for it to be built in development.
type Sets = &'static [(&'static str, fn() -> bool)];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LAMINA_ALL_ISAS");
    let of = |name: &str| env::var(name).unwrap_or_default();
    // A build in development for another machine is for an emulator or a board: nothing is known of it here.
    let all = of("LAMINA_ALL_ISAS") == "1" || of("PROFILE") == "release" || of("HOST") != of("TARGET");
    let arch = of("CARGO_CFG_TARGET_ARCH");
    for (name, here) in X86.iter().chain(ARM) {
        println!("cargo::rustc-check-cfg=cfg(isa_{name})");
        let target = if ARM.iter().any(|(arm, _)| arm == name) { "aarch64" } else { "x86_64" };
        if arch == target && (all || here()) {
            println!("cargo::rustc-cfg=isa_{name}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod host {
    pub fn vnni() -> bool {
        is_x86_feature_detected!("avxvnni")
    }

    pub fn avx512() -> bool {
        is_x86_feature_detected!("avx512vnni")
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod host {
    pub fn vnni() -> bool {
        false
    }

    pub fn avx512() -> bool {
        false
    }
}

const X86: Sets =
    &[("avx2", || true), ("avx_vnni", host::vnni), ("avx512_vl", host::avx512), ("avx512", host::avx512)];
const ARM: Sets = &[("neon", || true), ("neon_dot", || true), ("neon_i8mm", || true)];
