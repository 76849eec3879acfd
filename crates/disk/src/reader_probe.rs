//! How fast the disk of a folder is read, by a file of panels that is written for it.

use crate::{
    error::PanelError,
    panels::{MatrixName, PanelAccess, PanelFolder, PanelRange},
    read::Extent,
    reader_kind::ReaderRates,
    whole_file::UNFINISHED,
};
use std::{path::Path, sync::Arc};

/// Bytes of a panel.
const PANEL: usize = 1 << 20;
/// Panels that are written: a second or so on most disks. A faster one reads them more than once.
const PANELS: usize = 128;
/// Panels that are read at once.
const EACH: usize = 8;

/// The speed of each reader on the disk of `folder`, with reads past the page cache; none where its file system has only
/// reads through it, whose speed would be that of memory. A file of 128 MiB is there meanwhile.
///
/// # Errors
/// When nothing can be written there, or a read fails.
pub fn probe_readers(folder: &Path, threads: usize) -> Result<Option<ReaderRates>, PanelError> {
    let failed = |e| PanelError::io("write", folder, e);
    let root = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(folder).map_err(failed)?;
    let mut panels = PanelFolder::open(root.path(), "probe", PanelAccess::default())?;
    let name = MatrixName { name: "probe".into(), layout: String::new() };
    panels.add::<PanelError>(&[(name.clone(), PANELS, PANEL)], &mut |_, range, out| {
        for (panel, out) in range.zip(out.chunks_exact_mut(PANEL)) {
            fill(panel, out);
        }
        Ok(())
    })?;
    let Some((file, place)) = panels.find(&name) else { return Ok(None) };
    let range = |first| PanelRange::new(file, place, first..first + EACH);
    let extent = |first| Arc::new(Extent::new(vec![(file.clone(), range(first))]));
    let samples: Vec<Arc<Extent>> = (0..PANELS).step_by(EACH).map(extent).collect();
    if !samples.iter().all(|e| e.is_direct()) {
        return Ok(None);
    }
    // Open files stay readable, so that who is killed from here on leaves nothing. Some systems refuse, and it goes at the end.
    let _ = std::fs::remove_dir_all(root.path());
    ReaderRates::of(threads, &samples).map(Some).map_err(|e| PanelError::io("read", folder, e))
}

/// Fills a panel with bytes that no disk can leave out: some store blocks of zeros, or equal ones, without writing them.
fn fill(panel: usize, out: &mut [u8]) {
    let mut state = panel as u64 + 1;
    for word in out.chunks_exact_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&state.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_and_left_as_it_was() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        if let Some(rates) = probe_readers(folder.path(), 2)? {
            assert!(
                rates.threads > 1e6 && rates.ring.is_none_or(|r| r > 1e6) && rates.best() >= rates.threads
            );
        }
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
        assert!(probe_readers(&folder.path().join("missing"), 2).is_err());
        Ok(())
    }
}
