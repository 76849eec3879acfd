//! A reader that reorders, delays and fails: right bytes or one clear error, no deadlock, and every buffer comes back.

use crate::common::odd::odd;
use lamina_disk::{Extent, MatrixName, PanelAccess, PanelError, PanelFolder, PanelRange, ReaderKind};
use lamina_stream::Prefetcher;
use std::sync::Arc;
use tempfile::TempDir;

const PANEL: usize = 1000;

/// Extents of one to three panels, each panel filled with its number.
fn extents(root: &TempDir, count: usize) -> Vec<Arc<Extent>> {
    let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
    let name = MatrixName { name: "w".into(), layout: "l".into() };
    let panels = 2 * count + 3;
    let pack = &mut |_, range: std::ops::Range<usize>, out: &mut [u8]| {
        for (panel, out) in range.zip(out.chunks_exact_mut(PANEL)) {
            out.fill(panel as u8);
        }
        Ok::<(), PanelError>(())
    };
    folder.add(&[(name.clone(), panels, PANEL)], pack).unwrap();
    let (file, place) = folder.find(&name).unwrap();
    let range = |i: usize| PanelRange::new(file, place, 2 * i..2 * i + 1 + i % 3);
    (0..count).map(|i| Arc::new(Extent::new(vec![(file.clone(), range(i))]))).collect()
}

/// Fetches extent `i` and looks at its bytes.
fn fetch(prefetcher: &mut Prefetcher, extents: &[Arc<Extent>], i: usize) -> Result<(), String> {
    let bytes = prefetcher.fetch(i).map_err(|e| e.to_string())?;
    let inside = &bytes[extents[i].inside()[0].clone()];
    let right =
        inside.chunks_exact(PANEL).enumerate().all(|(p, b)| b.iter().all(|b| *b as usize == 2 * i + p));
    assert!(right, "extent {i}");
    drop(bytes);
    prefetcher.ask();
    Ok(())
}

#[test]
fn bytes_are_right_in_any_order_of_answers_and_passes() {
    for (count, buffers, seed) in [(7, 1, 1), (7, 2, 2), (7, 6, 3), (3, 6, 4), (1, 2, 5), (12, 5, 6)] {
        let root = tempfile::tempdir().unwrap();
        let extents = extents(&root, count);
        let mut prefetcher = Prefetcher::new(extents.clone(), odd(None, seed), buffers);
        for pass in 0..20 {
            // Some passes leave extents out, and say so or do not; some end early.
            let skips = |i: usize| pass % 3 == 1 && i % 2 == 1 && count > 1;
            if pass % 2 == 0 {
                prefetcher.begin((0..count).map(skips));
            }
            let end = if pass % 5 == 4 { count / 2 } else { count };
            for i in (0..end).filter(|i| !skips(*i)) {
                fetch(&mut prefetcher, &extents, i).unwrap();
            }
            if pass % 2 == 0 {
                prefetcher.begin((0..count).map(|_| false));
            }
        }
        assert!(prefetcher.counts().bytes > 0);
    }
}

#[test]
fn a_failed_read_is_an_error_of_one_pass() {
    let root = tempfile::tempdir().unwrap();
    for fails in 1..20 {
        let extents = extents(&root, 5);
        let mut prefetcher = Prefetcher::new(extents.clone(), odd(Some(fails), fails as u64), 3);
        let mut errors = 0;
        for _ in 0..8 {
            for i in 0..5 {
                if let Err(e) = fetch(&mut prefetcher, &extents, i) {
                    assert!(e.contains("broken disk"), "{e}");
                    errors += 1;
                    break;
                }
            }
        }
        assert_eq!(errors, 1, "the {fails}th read");
        let total = prefetcher.bytes() / 8192;
        assert!(prefetcher.free_buffers() <= total);
    }
}

#[test]
fn readers_read_what_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let extents = extents(&root, 9);
    // Where the system refuses io_uring, these are threads again.
    let kinds = [ReaderKind::Ring, ReaderKind::Threads].into_iter();
    for (kind, threads) in kinds.flat_map(|kind| [1, 2, 4].map(|threads| (kind, threads))) {
        let mut prefetcher = Prefetcher::new(extents.clone(), kind.start(threads).unwrap(), 4);
        for _ in 0..30 {
            (0..9).for_each(|i| fetch(&mut prefetcher, &extents, i).unwrap());
        }
    }
}
