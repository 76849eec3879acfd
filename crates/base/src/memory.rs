//! How much memory there is, and how much this process has used: read, never probed.

#[cfg(target_os = "linux")]
mod groups;

/// Peak resident memory of this process in bytes; `None` where the system does not say.
pub fn peak_rss() -> Option<u64> {
    system::peak_rss()
}

/// Resident memory of this process in bytes, now; `None` where the system does not say.
pub fn resident_memory() -> Option<u64> {
    system::resident()
}

/// Bytes that can be allocated without swapping: what the system says is available, on Linux cut to what the cgroup, all
/// groups above it, and the limit of the address space (`ulimit -v`) allow.
pub fn available_memory() -> Option<u64> {
    system::available()
}

/// Bytes that there are, on Linux cut to the lowest limit of the cgroup and the groups above it.
pub fn total_memory() -> Option<u64> {
    system::total()
}

#[cfg(target_os = "linux")]
mod system {
    use super::groups::group_room;
    use std::fs;

    pub fn resident() -> Option<u64> {
        proc_kb("/proc/self/status", "VmRSS:")
    }

    pub fn peak_rss() -> Option<u64> {
        proc_kb("/proc/self/status", "VmHWM:")
    }

    pub fn available() -> Option<u64> {
        let room = group_room().map(|group| group.room);
        least(least(proc_kb("/proc/meminfo", "MemAvailable:"), room), address_space())
    }

    /// What is left of the address space; none where it has no limit.
    fn address_space() -> Option<u64> {
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let line = limits.lines().find_map(|l| l.strip_prefix("Max address space"))?;
        let limit = line.split_whitespace().next()?.parse::<u64>().ok()?;
        Some(limit.saturating_sub(proc_kb("/proc/self/status", "VmSize:")?))
    }

    pub fn total() -> Option<u64> {
        least(proc_kb("/proc/meminfo", "MemTotal:"), group_room().map(|group| group.limit))
    }

    fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
        a.into_iter().chain(b).min()
    }

    fn proc_kb(path: &str, key: &str) -> Option<u64> {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|l| l.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

    pub fn resident() -> Option<u64> {
        let own = sysinfo::get_current_pid().ok()?;
        let mut system = System::new();
        let memory = ProcessRefreshKind::nothing().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, memory);
        Some(system.process(own)?.memory())
    }

    /// Only the present size can be asked for, which is no peak.
    pub fn peak_rss() -> Option<u64> {
        None
    }

    pub fn available() -> Option<u64> {
        some(read().available_memory())
    }

    pub fn total() -> Option<u64> {
        some(read().total_memory())
    }

    fn read() -> System {
        let mut system = System::new();
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        system
    }

    /// Systems that `sysinfo` does not know have none.
    fn some(bytes: u64) -> Option<u64> {
        (bytes > 0).then_some(bytes)
    }
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

    #[test]
    fn what_is_available_is_part_of_what_there_is() {
        let (Some(available), Some(total)) = (available_memory(), total_memory()) else { return };
        assert!(0 < available && available <= total, "{available} of {total}");
    }
}
