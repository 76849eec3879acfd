//! What the system says of this process; zeros where it says nothing.

use std::fs;

/// Ticks of a second in /proc: fixed for programs on Linux.
const TICKS: f64 = 100.0;
/// Bytes of a page in /proc/self/statm.
const PAGE: u64 = 4096;

/// Resident memory.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}

/// Open files.
pub(super) fn open_files() -> usize {
    // The listing itself is one of them.
    fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count().saturating_sub(1))
}

/// Processor time of user and system.
pub(super) fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold anything; what follows its bracket does not.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}
