//! How much memory a model may take, and what is done where it wants more.

use crate::error::{Error, Result};
use lamina_base::{resident_memory, total_memory};
use lamina_disk::ReaderKind;
use lamina_plan::{Backend, Memory};
use std::{fmt, path::PathBuf, str::FromStr};

/// The most memory that the process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// In bytes.
    Bytes(u64),
    /// In percent of the memory that there is.
    Percent(u64),
}

impl MemoryLimit {
    /// In bytes; none where the system does not say what there is.
    pub fn bytes(self) -> Option<u64> {
        self.of(total_memory())
    }

    /// In bytes, of so many in all; none where that is not known.
    pub fn of(self, total: Option<u64>) -> Option<u64> {
        match self {
            MemoryLimit::Bytes(bytes) => Some(bytes),
            MemoryLimit::Percent(percent) => Some(total? / 100 * percent),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = Error;

    fn from_str(text: &str) -> Result<MemoryLimit> {
        const UNITS: [(&str, u64); 10] = [
            ("KIB", 1 << 10),
            ("MIB", 1 << 20),
            ("GIB", 1 << 30),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("K", 1_000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("", 1),
        ];
        let wrong = || {
            let known = "8GiB, 8G, 500M, 80% or a number of bytes";
            Error::InvalidRequest(format!("memory is `{text}`, but must be a size such as {known}"))
        };
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|p| (1..=100).contains(p));
            return percent.map(MemoryLimit::Percent).ok_or_else(wrong);
        }
        let upper = text.trim().to_ascii_uppercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((upper.strip_suffix(name)?, *unit)))
            .ok_or_else(wrong)?;
        let number = number.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        number.map(|n| MemoryLimit::Bytes((n * unit as f64) as u64)).ok_or_else(wrong)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimit::Bytes(bytes) => write!(f, "{bytes}"),
            MemoryLimit::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What is done with weights that do not fit into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offload {
    /// They are read from disk in every step.
    #[default]
    Auto,
    /// The model is refused.
    Never,
}

impl FromStr for Offload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Offload> {
        match name {
            "auto" => Ok(Offload::Auto),
            "never" => Ok(Offload::Never),
            _ => Err(Error::InvalidRequest(format!("offload is `{name}`, but must be auto or never"))),
        }
    }
}

/// Choices of streaming that are made by size; given, they are taken as they are. For measurements and tests: they change
/// speed and memory, and no result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamOptions {
    /// Bytes of weights that stay in memory, of those that can be streamed. Given, weights are streamed whatever fits.
    pub resident: Option<u64>,
    /// Most bytes that are read at once.
    pub piece: Option<usize>,
    /// Buffers that are read into.
    pub buffers: Option<usize>,
    /// Experts that are in memory at most, over all layers. Given, experts are read from disk whatever fits.
    pub expert_slots: Option<usize>,
    /// Threads that read.
    pub readers: Option<usize>,
    /// How it is read, instead of what is measured to be faster.
    pub reader: Option<ReaderKind>,
    /// Reads go through the page cache.
    pub buffered: bool,
    /// Instead of the user's cache folder. Given, the panels of all weights are kept there, and read at every start.
    pub folder: Option<PathBuf>,
}

/// What can be had of a backend's memory. A limit on the process, which holds some already, is one on a backend that shares
/// its memory; others have a limit of their own.
pub fn limited(
    backend: &dyn Backend,
    (process, device): (Option<MemoryLimit>, Option<MemoryLimit>),
) -> Option<Memory> {
    let memory = backend.memory();
    let (limit, held) = match backend.capabilities().shares_memory {
        true => (process.and_then(MemoryLimit::bytes), resident_memory().unwrap_or(0)),
        false => (device.and_then(|limit| limit.of(memory.map(|m| m.total))), 0),
    };
    let Some(limit) = limit else { return memory };
    let left = limit.saturating_sub(held);
    Some(match memory {
        Some(memory) => Memory { free: memory.free.min(left), total: memory.total.min(limit) },
        None => Memory { free: left, total: limit },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let bytes = |text: &str| match text.parse() {
            Ok(MemoryLimit::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        assert_eq!(bytes("8GiB"), Some(8 << 30));
        assert_eq!(bytes("1.5 gib"), Some(3 << 29));
        assert_eq!(bytes("8G"), Some(8_000_000_000));
        assert_eq!(bytes("500mb"), Some(500_000_000));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!("80%".parse(), Ok(MemoryLimit::Percent(80)));
        for wrong in ["", "GiB", "-1G", "101%", "0%", "%", "8X", "nan", "inf G"] {
            assert!(wrong.parse::<MemoryLimit>().is_err(), "{wrong}");
        }
    }
}
