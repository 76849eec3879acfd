//! How much memory a model may take, and what is done where it wants more.

use crate::bad_value::BadValue;
use lamina_base::{resident_memory, total_memory};
use lamina_disk::{PanelAccess, PanelCheck, ReaderKind, cache_folder};
use lamina_plan::{Backend, Memory};
use std::{path::PathBuf, str::FromStr};

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
    type Err = BadValue;

    fn from_str(text: &str) -> Result<MemoryLimit, BadValue> {
        let limit = match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.trim().parse().ok().filter(|p| (1..=100).contains(p));
                percent.map(MemoryLimit::Percent)
            }
            None => bytes(text).map(MemoryLimit::Bytes),
        };
        limit.ok_or_else(|| BadValue::must_be("a size such as 8GiB, 8G, 500M, 80% or a number of bytes"))
    }
}

/// Bytes as people write them: `8GiB`, `1.5 gib`, `500mb`, `8G`, or a number.
pub fn bytes(text: &str) -> Option<u64> {
    let upper = text.trim().to_ascii_uppercase();
    let (rest, step) = match upper.strip_suffix("IB") {
        Some(rest) => (rest, 1024.0_f64),
        None => (upper.strip_suffix('B').unwrap_or(&upper), 1000.0),
    };
    let power = rest.chars().last().and_then(|unit| "KMGT".find(unit)).map_or(0, |at| at + 1);
    let number: f64 = rest[..rest.len() - power.min(1)].trim().parse().ok()?;
    let bytes = number * step.powi(power as i32);
    (0.0..u64::MAX as f64).contains(&bytes).then_some(bytes as u64)
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
    /// When what was read is compared with its checksums.
    pub check: PanelCheck,
    /// Instead of the user's cache folder. Given, the panels of all weights are kept there, and read at every start.
    pub folder: Option<PathBuf>,
}

impl StreamOptions {
    /// How panel files are read.
    pub fn access(&self) -> PanelAccess {
        PanelAccess { buffered: self.buffered, check: self.check }
    }

    /// The folder that has the panels of all models, and the file of swapped pages.
    pub fn panel_root(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(cache_folder)
    }
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
        assert_eq!(bytes("1.5T"), Some(1_500_000_000_000));
        assert_eq!("80%".parse(), Ok(MemoryLimit::Percent(80)));
        for wrong in ["", "GiB", "-1G", "101%", "0%", "%", "8X", "nan", "inf G", "99999999999999T", "é"] {
            assert!(wrong.parse::<MemoryLimit>().is_err(), "{wrong}");
        }
    }
}
