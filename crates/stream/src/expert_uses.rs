//! What is known of the uses of experts from earlier runs.

use crate::reuse::{BINS, ReuseCounts};
use std::{io, path::Path};

/// Uses of experts, as they are kept beside the panels: a hint of what to read first and of how much will be found, and
/// never more.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertUses {
    /// Of each expert of each stack, as they have faded.
    pub uses: Vec<Vec<f32>>,
    /// After how many others experts were used again.
    pub reuse: ReuseCounts,
}

impl ExpertUses {
    /// What the file at `path` has for stacks of these lengths; none where it is missing, damaged or of another model.
    pub fn read(path: &Path, lengths: &[usize]) -> Option<ExpertUses> {
        let mut lists = lamina_disk::read_hotness(path, &[lengths, &[BINS, BINS]].concat())?;
        let (first, found) = (lists.pop()?, lists.pop()?);
        Some(ExpertUses { uses: lists, reuse: ReuseCounts { found, first } })
    }

    /// Writes it to `path`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(self, path: &Path) -> io::Result<()> {
        let ExpertUses { mut uses, reuse } = self;
        uses.extend([reuse.found, reuse.first]);
        lamina_disk::write_hotness(path, &uses)
    }
}
