//! Free extents of a file, from which space is given out and taken back.

use std::collections::BTreeMap;

/// Free extents: length by offset, no two of them adjacent.
#[derive(Debug, Default)]
pub(crate) struct FreeExtents(BTreeMap<u64, u64>);

impl FreeExtents {
    /// All of a file of `len` bytes.
    pub fn new(len: u64) -> FreeExtents {
        let mut free = FreeExtents::default();
        free.give(0, len);
        free
    }

    /// The offset of `len` bytes that are free no longer: the first that fit. None where no extent is long enough.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let (&offset, &has) = self.0.iter().find(|(_, has)| **has >= len)?;
        self.0.remove(&offset);
        self.give(offset + len, has - len);
        Some(offset)
    }

    /// Takes `len` bytes from `offset` on back.
    pub fn give(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &has)) =
            self.0.range(..offset).next_back().filter(|(at, has)| **at + **has == offset)
        {
            self.0.remove(&before);
            (offset, len) = (before, len + has);
        }
        len += self.0.remove(&(offset + len)).unwrap_or(0);
        if len > 0 {
            self.0.insert(offset, len);
        }
    }

    /// Free bytes in all.
    pub fn bytes(&self) -> u64 {
        self.0.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_joined_again() {
        let mut free = FreeExtents::new(100);
        let taken: Vec<_> = (0..10).map(|_| free.take(10).expect("room")).collect();
        assert_eq!((free.take(1), free.bytes()), (None, 0));
        taken.iter().filter(|at| **at % 20 == 0).for_each(|&at| free.give(at, 10));
        assert_eq!((free.take(11), free.bytes()), (None, 50), "no two of them lie together");
        taken.iter().filter(|at| **at % 20 != 0).for_each(|&at| free.give(at, 10));
        assert_eq!((free.take(100), free.bytes()), (Some(0), 0));
    }
}
