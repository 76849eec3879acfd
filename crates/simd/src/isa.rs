//! Instruction sets, and which one this process uses.

use std::{ffi::OsStr, fmt, str::FromStr};

/// A set of instructions that kernels are built for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Portable code.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and BMI (2013 on).
    Avx2,
    /// The same with AVX-VNNI (Alder Lake, Zen 5 and later).
    AvxVnni,
    /// AVX-512 on registers of 256 bits, for CPUs that lower their clock for 512: only where it is asked for.
    Avx512Vl,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// aarch64 without dot products.
    Neon,
    /// aarch64 with `sdot`.
    NeonDot,
    /// aarch64 with `sdot` and `smmla` (Neoverse V1 and N2, Apple M2 and later).
    NeonI8mm,
}

/// An instruction set that was asked for and is not known, or not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("LAMINA_ISA={asked} cannot be used on this CPU; it has: {have}")]
pub struct UnknownIsa {
    asked: String,
    have: String,
}

impl Isa {
    /// All of this architecture, weakest first.
    pub const ALL: &'static [Isa] = &[
        Isa::Scalar,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::AvxVnni,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vl,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon,
        #[cfg(target_arch = "aarch64")]
        Isa::NeonDot,
        #[cfg(target_arch = "aarch64")]
        Isa::NeonI8mm,
    ];

    /// Name in reports and in `LAMINA_ISA`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512Vl => "avx512-256",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
            Isa::NeonDot => "neon-dot",
            Isa::NeonI8mm => "neon-i8mm",
        }
    }

    /// True when this CPU has the instructions and this build has kernels for them: one for development has no others
    /// than those of the machine that it was made on (`LAMINA_ALL_ISAS=1` builds all).
    pub fn available(self) -> bool {
        self.is_built() && self.has_instructions()
    }

    fn has_instructions(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => has_avx2() && is_x86_feature_detected!("avxvnni"),
            // Asks for the same as the stronger set, so that it is never the best one.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vl | Isa::Avx512 => has_avx2() && has_avx512(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => {
                Isa::NeonDot.has_instructions() && std::arch::is_aarch64_feature_detected!("i8mm")
            }
            #[allow(unreachable_patterns)] // the sets of other architectures
            _ => false,
        }
    }

    /// Those that this CPU can run, weakest first.
    pub fn usable() -> Vec<Isa> {
        Isa::ALL.iter().copied().filter(|i| i.available()).collect()
    }

    /// The best one of this CPU, or the one that the environment variable `LAMINA_ISA` names now: whatever is built from
    /// here on uses it, what was built before keeps its own.
    ///
    /// # Errors
    /// When `LAMINA_ISA` names one that is unknown or missing.
    pub fn detect() -> Result<Isa, UnknownIsa> {
        Isa::named(std::env::var_os("LAMINA_ISA").as_deref())
    }

    /// The one of this name, or the best one where there is none.
    fn named(name: Option<&OsStr>) -> Result<Isa, UnknownIsa> {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => name.to_string_lossy().parse(),
            None => Ok(Isa::usable().pop().unwrap_or(Isa::Scalar)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(s: &str) -> Result<Isa, UnknownIsa> {
        let found = Isa::usable().into_iter().find(|i| i.name().eq_ignore_ascii_case(s));
        let have = || Isa::usable().iter().map(|i| i.name()).collect::<Vec<_>>().join(" ");
        found.ok_or_else(|| UnknownIsa { asked: s.to_owned(), have: have() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_counts_when_it_is_asked_for() {
        let best = Isa::usable().pop();
        let named = |name: &str| Isa::named(Some(OsStr::new(name)));
        assert_eq!(named("SCALAR").ok(), Some(Isa::Scalar));
        assert_eq!(named("").ok(), best);
        assert_eq!(Isa::named(None).ok(), best);
        let message = named("abacus").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("abacus") && message.contains("scalar"), "{message}");
    }

    #[test]
    fn every_set_has_its_name_and_only_full_avx512_is_a_best_one() {
        for (i, isa) in Isa::ALL.iter().enumerate() {
            assert!(Isa::ALL[..i].iter().all(|weaker| weaker < isa && weaker.name() != isa.name()));
        }
        for isa in Isa::usable() {
            assert_eq!(isa.name().to_uppercase().parse(), Ok(isa));
        }
        assert_ne!(Isa::usable().pop(), Some(Isa::Avx512Vl));
    }

    #[test]
    fn scalar_can_always_be_asked_for_and_nonsense_never() {
        assert_eq!("scalar".parse(), Ok(Isa::Scalar));
        assert!("mmx".parse::<Isa>().expect_err("unknown").to_string().contains("scalar"));
    }
}
