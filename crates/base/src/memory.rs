//! How much memory there is, and how much this process has used: read, never probed.

use std::fs;

/// Peak resident memory of this process in bytes; `None` where the system does not say.
pub fn peak_rss() -> Option<u64> {
    proc_kb("/proc/self/status", "VmHWM:")
}

/// Bytes that can be allocated without swapping: what the system says is available, cut to what the cgroup allows.
pub fn available_memory() -> Option<u64> {
    let system = proc_kb("/proc/meminfo", "MemAvailable:");
    match (system, cgroup_room()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn proc_kb(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Room under the limit of the cgroup that this process is in (version 2, then version 1).
fn cgroup_room() -> Option<u64> {
    let read = |p: &str| fs::read_to_string(p).ok()?.trim().parse::<u64>().ok();
    let v2 = || Some((read("/sys/fs/cgroup/memory.max")?, read("/sys/fs/cgroup/memory.current")?));
    let v1 = || {
        let dir = "/sys/fs/cgroup/memory";
        Some((read(&format!("{dir}/memory.limit_in_bytes"))?, read(&format!("{dir}/memory.usage_in_bytes"))?))
    };
    let (limit, used) = v2().or_else(v1)?;
    Some(limit.saturating_sub(used))
}

/// `n` bytes as a person reads them: `1.4 GB`.
pub fn human_bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_like_a_person_writes_them() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1_234_567), "1.2 MB");
        assert_eq!(human_bytes(999_900), "1.0 MB");
    }
}
