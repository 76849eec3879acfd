//! Files of panels are whole or absent, and never believed: round trips, damage, kills while writing.

use lamina_disk::{
    BLOCK, BufferPool, Extent, MatrixName, PanelAccess, PanelCheck, PanelError, PanelFile, PanelFolder,
    PanelRange, ReadRequest, ReaderKind,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

/// Matrices with panels of odd sizes: some begin and end inside blocks, one is larger than a window of the writer.
const MATRICES: [(usize, usize); 4] = [(3, 544), (40, 17_408), (1, 1), (9, 5 << 20)];

const BUFFERED: PanelAccess = PanelAccess { buffered: true, check: PanelCheck::Always };

fn name(i: usize) -> MatrixName {
    MatrixName { name: format!("blk.{i}.weight"), layout: "8x64".into() }
}

fn wanted(count: usize) -> Vec<(MatrixName, usize, usize)> {
    (0..count).map(|i| (name(i), MATRICES[i].0, MATRICES[i].1)).collect()
}

fn byte(matrix: usize, panel: usize, at: usize) -> u8 {
    (matrix * 31 + panel * 7 + at * 13 + at / 251) as u8
}

fn fill(folder: &mut PanelFolder, count: usize, mut told: impl FnMut()) -> Result<(), PanelError> {
    folder.add(&wanted(count), &mut |m, panels, out: &mut [u8]| {
        let bytes = MATRICES[m].1;
        for (panel, out) in panels.zip(out.chunks_exact_mut(bytes)) {
            out.iter_mut().enumerate().for_each(|(at, b)| *b = byte(m, panel, at));
        }
        told();
        Ok(())
    })
}

fn check(folder: &PanelFolder, count: usize) {
    for m in 0..count {
        let ((panels, bytes), (file, place)) = (MATRICES[m], folder.find(&name(m)).expect("written"));
        for range in [0..panels, panels / 2..panels, panels - 1..panels] {
            let mut out = vec![0; range.len() * bytes];
            file.read(place, range.clone(), &mut out).expect("reads");
            for (panel, out) in range.zip(out.chunks_exact(bytes)) {
                assert!(out.iter().enumerate().all(|(at, b)| *b == byte(m, panel, at)), "matrix {m}");
            }
        }
    }
}

fn files(root: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(root.join("panels")).unwrap().flatten();
    folders.flat_map(|f| fs::read_dir(f.path()).unwrap().flatten()).map(|f| f.path()).collect()
}

fn panel_file(root: &Path) -> PathBuf {
    files(root).into_iter().find(|p| p.extension().is_some_and(|e| e == "panels")).expect("a file")
}

#[test]
fn what_was_written_is_read_and_more_is_added() {
    let root = tempfile::tempdir().unwrap();
    for buffered in [false, true] {
        let mut folder =
            PanelFolder::open(root.path(), "model", PanelAccess { buffered, ..PanelAccess::default() })
                .unwrap();
        fill(&mut folder, 2, || ()).unwrap();
        check(&folder, 2);
        let mut packed = 0;
        fill(&mut folder, 4, || packed += 1).unwrap();
        check(&folder, 4);
        assert_eq!(packed == 0, buffered, "the second folder finds all in the files of the first");
        let other = PanelFolder::open(root.path(), "other model", PanelAccess::default()).unwrap();
        assert!(other.find(&name(0)).is_none());
        let layout = MatrixName { layout: "16x64".into(), ..name(0) };
        assert!(folder.find(&layout).is_none());
    }
}

#[test]
fn every_changed_byte_of_head_and_index_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
    fill(&mut folder, 3, || ()).unwrap();
    let path = panel_file(root.path());
    let whole = fs::read(&path).unwrap();
    let index = u64::from_le_bytes(whole[12..20].try_into().unwrap()) as usize;
    let length = u64::from_le_bytes(whole[20..28].try_into().unwrap()) as usize;
    for at in (0..BLOCK).chain(index..index + length) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, bytes).unwrap();
        assert!(PanelFile::open(&path, BUFFERED).is_err(), "byte {at}");
    }
    for cut in (0..whole.len()).step_by(BLOCK) {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(PanelFile::open(&path, BUFFERED).is_err(), "cut at {cut}");
    }
    fs::write(&path, &whole).unwrap();
    assert!(PanelFile::open(&path, BUFFERED).is_ok());
}

#[test]
fn a_changed_panel_is_seen_when_it_is_read() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
    fill(&mut folder, 2, || ()).unwrap();
    let path = panel_file(root.path());
    let mut bytes = fs::read(&path).unwrap();
    let file = PanelFile::open(&path, PanelAccess::default()).unwrap();
    let entry = &file.matrices()[1];
    let at = entry.offset as usize + 20 * entry.panel_bytes + 100;
    bytes[at] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let file = PanelFile::open(&path, PanelAccess::default()).unwrap();
    let mut out = vec![0; 20 * MATRICES[1].1];
    file.read(1, 0..20, &mut out).expect("other panels are whole");
    let error = file.read(1, 19..22, &mut out[..3 * MATRICES[1].1]).expect_err("damaged").to_string();
    assert!(error.contains("are damaged") && error.contains("panels"), "{error}");
    // A file that shrinks after it was opened is an error too.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(BLOCK as u64 * 2).unwrap();
    let range = PanelRange::new(&file, 1, 30..40);
    let mut room = lamina_disk::PageBuffer::new(range.room());
    assert!(matches!(range.read(&file, room.bytes_mut()), Err(PanelError::Io { .. })));
}

/// Reads all panels of a matrix, and looks at them.
fn read_by(kind: ReaderKind, file: &Arc<PanelFile>, matrix: usize) -> Result<(), PanelError> {
    let (panels, bytes) = MATRICES[matrix];
    let extent = Arc::new(Extent::new(vec![(file.clone(), PanelRange::new(file, matrix, 0..panels))]));
    let buffer = BufferPool::new(1, extent.room()).lend().unwrap();
    let mut reader = kind.start(2).unwrap();
    reader.submit(ReadRequest { tag: 7, extent: extent.clone(), buffer });
    let (done, result) = reader.wait().unwrap().expect("an answer");
    result?;
    assert_eq!(done.tag, 7);
    let read = &done.buffer[extent.inside()[0].clone()];
    for (panel, out) in read.chunks_exact(bytes).enumerate() {
        assert!(out.iter().enumerate().all(|(at, b)| *b == byte(matrix, panel, at)), "panel {panel}");
    }
    Ok(())
}

#[test]
fn every_reader_reads_all_and_sees_what_is_damaged_or_cut_off() {
    for kind in [ReaderKind::Threads, ReaderKind::Ring] {
        let root = tempfile::tempdir().unwrap();
        let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
        fill(&mut folder, 4, || ()).unwrap();
        let path = panel_file(root.path());
        let open = || Arc::new(PanelFile::open(&path, PanelAccess::default()).unwrap());
        (0..4).for_each(|matrix| read_by(kind, &open(), matrix).unwrap());
        let file = open();
        let at = file.matrices()[3].offset + (6 << 20);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at as usize] ^= 1;
        fs::write(&path, &bytes).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(at).unwrap();
        let cut = read_by(kind, &file, 3).expect_err("cut off").to_string();
        assert!(cut.contains("ends at byte"), "{kind:?}: {cut}");
        fs::write(&path, &bytes).unwrap();
        let damaged = read_by(kind, &open(), 3).expect_err("damaged").to_string();
        assert!(damaged.contains("are damaged") && !path.exists(), "{kind:?}: {damaged}");
    }
}

/// Reads of one extent before and after its file has changed.
#[test]
fn what_changes_after_a_first_read_is_found_by_the_next_one() {
    for (kind, check) in [
        (ReaderKind::Threads, PanelCheck::Always),
        (ReaderKind::Ring, PanelCheck::Always),
        (ReaderKind::Threads, PanelCheck::First),
    ] {
        let root = tempfile::tempdir().unwrap();
        let access = PanelAccess { check, ..PanelAccess::default() };
        let mut folder = PanelFolder::open(root.path(), "model", access).unwrap();
        fill(&mut folder, 4, || ()).unwrap();
        let (path, (file, place)) = (panel_file(root.path()), folder.find(&name(1)).unwrap());
        let extent = Arc::new(Extent::new(vec![(file.clone(), PanelRange::new(file, place, 3..20))]));
        let (pool, mut reader) = (BufferPool::new(1, extent.room()), kind.start(2).unwrap());
        let mut read = || {
            let buffer = pool.lend().unwrap();
            reader.submit(ReadRequest { tag: 0, extent: extent.clone(), buffer });
            reader.wait().unwrap().expect("an answer").1
        };
        read().and_then(|()| read()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[file.matrices()[place].offset as usize + 5 * MATRICES[1].1] ^= 1;
        fs::write(&path, &bytes).unwrap();
        match (read(), check) {
            (Err(e), PanelCheck::Always) => assert!(e.to_string().contains(path.to_str().unwrap()), "{e}"),
            (read, PanelCheck::First) => read.unwrap(),
            (Ok(()), _) => panic!("{kind:?}: other bytes than were written"),
        }
    }
}

#[test]
fn what_is_kept_is_listed_verified_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("model.gguf");
    fs::write(&source, "model").unwrap();
    let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
    fill(&mut folder, 2, || ()).unwrap();
    lamina_disk::note_sources(folder.path(), [source.as_path()]);
    let listed = lamina_disk::kept_panels(root.path());
    assert_eq!(listed.len(), 1);
    assert!(listed[0].bytes > 0 && listed[0].sources.len() == 1 && !listed[0].is_orphaned());
    assert_eq!(listed[0].verify().unwrap(), [] as [PathBuf; 0]);
    fs::remove_file(&source).unwrap();
    assert!(lamina_disk::kept_panels(root.path())[0].is_orphaned());
    let path = panel_file(root.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[BLOCK] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(listed[0].verify().unwrap(), [path]);
    assert!(listed[0].remove().unwrap() && lamina_disk::kept_panels(root.path()).is_empty());
}

/// Set for the process that writes until it is killed.
const FOLDER: &str = "LAMINA_TEST_PANELS";

#[test]
fn killed_writers_leave_nothing_that_is_used() {
    if let Some(root) = std::env::var_os(FOLDER) {
        let mut folder = PanelFolder::open(Path::new(&root), "model", PanelAccess::default()).unwrap();
        fill(&mut folder, 4, || eprintln!("window")).unwrap();
        eprintln!("done");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    for windows in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "panels::killed_writers_leave_nothing_that_is_used", "--nocapture"])
            .env(FOLDER, root.path())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let _ = lines.map_while(Result::ok).filter(|l| l == "window").take(windows).count();
        child.kill().unwrap();
        child.wait().unwrap();
        let folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
        // Whoever was killed after its last window may have finished.
        if folder.find(&name(0)).is_some() {
            check(&folder, 4);
        }
    }
    let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
    fill(&mut folder, 4, || ()).unwrap();
    check(&folder, 4);
    let left = files(root.path())
        .into_iter()
        .filter(|p| p.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".unfinished")));
    assert_eq!(left.count(), 0, "leftovers are removed by the next writer");
}

#[test]
fn two_writers_take_turns() {
    let root = tempfile::tempdir().unwrap();
    let packed = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default()).unwrap();
                fill(&mut folder, 3, || {
                    packed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                })
                .unwrap();
                check(&folder, 3);
            });
        }
    });
    assert_eq!(packed.into_inner(), 3, "one has packed each matrix");
}

/// Prints what the check of panels costs beside reading them past the page cache.
#[test]
#[ignore = "a measurement"]
fn speeds_of_checks_and_reads() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (panels, bytes, each) = (4096, 128 << 10, 64);
    let matrices = [(name(0), panels, bytes)];
    let rate = |check| {
        let access = PanelAccess { check, ..PanelAccess::default() };
        let mut folder = PanelFolder::open(root.path(), "model", access).unwrap();
        let pack = &mut |_, _, out: &mut [u8]| {
            out.iter_mut().enumerate().for_each(|(at, b)| *b = byte(0, 1, at));
            Ok::<(), PanelError>(())
        };
        folder.add(&matrices, pack).unwrap();
        let (file, place) = folder.find(&name(0)).unwrap();
        let range = |first| PanelRange::new(file, place, first..first + each);
        let ranges: Vec<PanelRange> = (0..panels).step_by(each).map(range).collect();
        let mut out = lamina_disk::PageBuffer::new(ranges[0].room());
        ranges.iter().for_each(|r| r.read(file, out.bytes_mut()).unwrap());
        let begin = std::time::Instant::now();
        ranges.iter().for_each(|r| r.read(file, out.bytes_mut()).unwrap());
        (panels * bytes) as f64 / 1e9 / begin.elapsed().as_secs_f64()
    };
    let window = vec![7; bytes];
    let begin = std::time::Instant::now();
    let sums: Vec<u64> = (0..panels).map(|_| lamina_disk::checksum(std::hint::black_box(&window))).collect();
    let hash = (sums.len() * bytes) as f64 / 1e9 / begin.elapsed().as_secs_f64();
    let (first, always) = (rate(PanelCheck::First), rate(PanelCheck::Always));
    eprintln!("one thread, GB/s: hash {hash:.1}, read {first:.2} unchecked and {always:.2} checked");
}
