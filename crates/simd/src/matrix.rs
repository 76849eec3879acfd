//! Instructions of x86 that no kernel uses as yet, so that `lamina doctor` tells who could measure them: tiles (AMX), and
//! AVX10, on which the kernels for AVX-512 run as they are.
//!
//! By Intel's manual, volume 1 chapter 18 and volume 2 `CPUID`: leaf 7 with its subleaf 1, leaf 24h; a system that keeps
//! tiles over a change of tasks has set bits 17 and 18 of XCR0.

/// Registers that tell of these instructions.
#[derive(Clone, Copy, Default)]
struct CpuidWords {
    /// Leaf 7, subleaf 0, EDX.
    leaf7_edx: u32,
    /// Leaf 7, subleaf 1, EAX and EDX.
    leaf7_1: (u32, u32),
    /// Leaf 24h, EBX.
    leaf24_ebx: u32,
    xcr0: u64,
}

/// Names of the instructions that this CPU has beside those of kernels, such as `amx-int8` and `avx10.2`; with a remark
/// where the system does not let programs use them.
pub fn instructions_without_kernels() -> Vec<String> {
    words().map(names).unwrap_or_default()
}

fn names(words: CpuidWords) -> Vec<String> {
    const TILES: u64 = 0b11 << 17;
    let bit = |word: u32, bit: u32| word >> bit & 1 == 1;
    let tiles = [
        ("amx-tile", bit(words.leaf7_edx, 24)),
        ("amx-int8", bit(words.leaf7_edx, 25)),
        ("amx-bf16", bit(words.leaf7_edx, 22)),
        ("amx-fp16", bit(words.leaf7_1.0, 21)),
    ];
    let remark = if words.xcr0 & TILES == TILES { "" } else { " (not let by the system)" };
    let mut all: Vec<String> =
        tiles.iter().filter(|(_, has)| *has).map(|(name, _)| format!("{name}{remark}")).collect();
    if bit(words.leaf7_1.1, 19) {
        all.push(format!("avx10.{}", words.leaf24_ebx & 0xff));
    }
    all
}

#[cfg(target_arch = "x86_64")]
fn words() -> Option<CpuidWords> {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    let last = __cpuid(0).eax;
    if last < 7 {
        return None;
    }
    let (leaf7, leaf7_1) = (__cpuid_count(7, 0), __cpuid_count(7, 1));
    let leaf7_1 = if leaf7.eax >= 1 { (leaf7_1.eax, leaf7_1.edx) } else { (0, 0) };
    // The system has switched XGETBV on.
    let has_xgetbv = __cpuid(1).ecx >> 27 & 1 == 1 && is_x86_feature_detected!("xsave");
    // SAFETY: it is there.
    let xcr0 = if has_xgetbv { unsafe { _xgetbv(0) } } else { 0 };
    let leaf24_ebx = if last >= 0x24 { __cpuid_count(0x24, 0).ebx } else { 0 };
    Some(CpuidWords { leaf7_edx: leaf7.edx, leaf7_1, leaf24_ebx, xcr0 })
}

#[cfg(not(target_arch = "x86_64"))]
fn words() -> Option<CpuidWords> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of Sapphire Rapids under Linux.
    const SAPPHIRE: CpuidWords =
        CpuidWords { leaf7_edx: 0b1101 << 22, leaf7_1: (0, 0), leaf24_ebx: 0, xcr0: 0x602e7 };

    #[test]
    fn tiles_are_told_and_whether_the_system_lets_them() {
        assert_eq!(names(SAPPHIRE), ["amx-tile", "amx-int8", "amx-bf16"]);
        let masked = names(CpuidWords { xcr0: 0xe7, ..SAPPHIRE });
        assert!(masked.len() == 3 && masked.iter().all(|name| name.ends_with(" (not let by the system)")));
        let granite = CpuidWords { leaf7_1: (1 << 21, 1 << 19), leaf24_ebx: 0x7_0001, ..SAPPHIRE };
        assert_eq!(names(granite), ["amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "avx10.1"]);
        assert!(names(CpuidWords::default()).is_empty());
    }

    #[test]
    fn this_machine_is_asked_without_a_fault() {
        assert!(
            instructions_without_kernels().iter().all(|n| n.starts_with("amx-") || n.starts_with("avx10."))
        );
    }
}
