//! Which cases a run of the kit takes: all of them take long on an emulator.

use lamina_fixtures::extent;
use std::env;

/// Parts of the names of cases that find the faults which are put into kernels (`crates/cuda/tests/faults.rs` has one or
/// several for each): what the kit is worth by day.
pub const FAULT_PARTS: &[&str] = &[
    "attend f16 128",
    "attend f32 128",
    "attend window 16",
    "conv ",
    "experts types",
    "latent f16",
    "linear 129x256 F32",
    "linear 129x256 Q4_0",
    "linear 129x256 Q4_1",
    "linear 129x256 Q4_K",
    "linear 129x256 Q5_K",
    "linear 129x256 Q6_K",
    "linear 40x512 Q4_K",
    "linear 40x512 Q8_0",
    "memory",
    "normalize Layer",
    "wild rows F16",
];

/// The cases that no fault names are tried once in so many days.
const DAYS: usize = 10;

/// True for the cases of this run: those that find faults and a tenth of the others, which is another one tomorrow; by night
/// all; where `LAMINA_KIT` names parts of names, with commas between them, the cases that have one.
pub fn of_this_run() -> impl Fn(&str) -> bool {
    let asked = env::var("LAMINA_KIT").unwrap_or_default();
    move |name| match asked.as_str() {
        "" => has_one(name, FAULT_PARTS.iter().copied()) || extent::takes(share(name, DAYS), DAYS),
        parts => has_one(name, parts.split(',')),
    }
}

fn has_one<'a>(name: &str, mut parts: impl Iterator<Item = &'a str>) -> bool {
    parts.any(|part| name.contains(part))
}

/// Which of `n` shares of all cases one belongs to, by its name.
pub fn share(name: &str, n: usize) -> usize {
    name.bytes().fold(7, |h: usize, b| h.wrapping_mul(31).wrapping_add(b.into())) % n
}

#[cfg(test)]
mod tests {
    use super::{super::cases, *};

    #[test]
    fn every_part_is_that_of_a_case() {
        let names: Vec<String> = cases::all(64).map(|c| c.name).collect();
        for part in FAULT_PARTS {
            let beside = ["memory", "wild rows F16"].contains(part);
            assert!(beside || names.iter().any(|name| name.contains(part)), "no case is called {part}");
        }
    }

    #[test]
    fn shares_are_about_equal() {
        let mut of = [0; DAYS];
        cases::all(64).for_each(|c| of[share(&c.name, DAYS)] += 1);
        let all: usize = of.iter().sum();
        assert!(of.iter().all(|&n| n > all / 20 && n < all / 5), "{of:?}");
    }
}
