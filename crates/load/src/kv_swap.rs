//! What preempted sequences may take of memory and disk.

use lamina_disk::SwapBudget;
use lamina_engine::SwapChoice;
use lamina_planner::{BadValue, bytes};
use std::str::FromStr;

/// What preempted sequences may take, and when they are swapped. Nothing: all are computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvSwap {
    /// Bytes of memory beside the cache, and of disk.
    pub budget: SwapBudget,
    /// When they are swapped: for tests and measurements.
    pub choice: SwapChoice,
}

impl FromStr for KvSwap {
    type Err = BadValue;

    /// Reads a size on disk such as `8GiB`, or places with sizes: `ram:2GiB,disk:8GiB`; `0` is nothing.
    fn from_str(text: &str) -> Result<KvSwap, BadValue> {
        let wrong =
            || BadValue::must_be("a size such as 8GiB, which is on disk, or ram:2GiB, or ram:2GiB,disk:8GiB");
        let mut budget = SwapBudget::default();
        for part in text.split(',') {
            let (place, size) = part.split_once(':').unwrap_or(("disk", part));
            let bytes = bytes(size).ok_or_else(wrong)?;
            match place.trim() {
                "ram" => budget.memory = bytes,
                "disk" => budget.disk = bytes,
                _ => return Err(wrong()),
            }
        }
        Ok(KvSwap { budget, ..KvSwap::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_sizes_are_read() {
        let read =
            |text: &str| text.parse::<KvSwap>().ok().map(|swap| (swap.budget.memory, swap.budget.disk));
        assert_eq!(read("8GiB"), Some((0, 8 << 30)));
        assert_eq!(read("ram:2GiB"), Some((2 << 30, 0)));
        assert_eq!(read("ram:1k, disk:2k"), Some((1000, 2000)));
        assert_eq!(read("0"), Some((0, 0)));
        assert_eq!(read("ram:7,disk:9"), Some((7, 9)));
        for wrong in ["", "80%", "tape:3G", "ram:", "ram=3G", "-1"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
