//! How many threads to use where the user does not say.

use std::{collections::BTreeSet, fs, thread};

/// Physical cores that this process may use: affinity and cgroup quota are minded, hyperthreads are not counted, since
/// two of them share the units that the kernels keep busy.
pub fn default_threads() -> usize {
    let allowed = thread::available_parallelism().map_or(1, usize::from);
    allowed.min(physical_cores().unwrap_or(allowed)).max(1)
}

/// Distinct pairs of package and core, where the system lists them.
fn physical_cores() -> Option<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |block: &str, key: &str| -> Option<String> {
        let line = block.lines().find(|l| l.starts_with(key))?;
        line.split(':').nth(1).map(|v| v.trim().to_owned())
    };
    let cores: BTreeSet<_> = text
        .split("\n\n")
        .filter_map(|block| Some((value(block, "physical id")?, value(block, "core id")?)))
        .collect();
    (!cores.is_empty()).then_some(cores.len())
}
