//! A store that is killed, damaged, filled and shared.

use lamina_disk::{
    CacheKey, Entry, EntryFileWriter, Key, PageStore, Reporter, StoreFolder, Unwritten, WantedEntry,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Names the folder that a writer of [`kills_leave_entries_whole_or_absent`] fills.
const WRITER: &str = "LAMINA_TEST_STORE_WRITER";

fn key(i: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    key
}

fn part(i: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + i) as u8).collect()
}

fn entry(i: u64, len: usize) -> Entry {
    Entry::new(&key(i), &i.to_le_bytes(), &[&part(i, len), &part(i + 1, 10)])
}

fn unwritten(i: u64, len: usize) -> Unwritten {
    Unwritten { key: key(i), proof: i.to_le_bytes().to_vec(), parts: vec![part(i, len), part(i + 1, 10)] }
}

fn wanted(i: u64) -> WantedEntry {
    WantedEntry { key: key(i), proof: i.to_le_bytes().to_vec() }
}

fn open(folder: &Path, budget: u64) -> PageStore {
    PageStore::open(folder, budget, None, Reporter::default()).expect("opens")
}

fn holds(store: &PageStore, i: u64, len: usize) -> bool {
    store.read(&wanted(i)).is_some_and(|found| found == entry(i, len))
}

#[test]
fn entries_outlive_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    assert!(!holds(&store, 1, 1000));
    (0..50).for_each(|i| assert!(store.put(unwritten(i, 1000))));
    drop(store);
    let store = open(folder.path(), 8 << 20);
    assert!((0..50).all(|i| holds(&store, i, 1000)));
    assert!(
        store.read(&WantedEntry { proof: b"another past".to_vec(), ..wanted(3) }).is_none(),
        "a key alone proves nothing"
    );
    let counts = store.counts();
    assert_eq!((counts.hits, counts.misses, counts.damaged), (50, 1, 0));
}

#[test]
fn a_full_store_keeps_what_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 1 << 20);
    let len = 100_000;
    store.put(unwritten(0, len));
    store.flush();
    for i in 1..40 {
        assert!(holds(&store, 0, len), "after {i}");
        store.put(unwritten(i, len));
        store.flush();
    }
    assert!(!store.contains(&key(1)) && store.contains(&key(39)));
    let bytes: u64 = StoreFolder::open(folder.path()).expect("opens").list().iter().map(|e| e.bytes).sum();
    assert!(bytes <= 1 << 20, "{bytes} bytes");
}

#[test]
fn damage_is_a_miss_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    for round in 0..200u64 {
        store.put(unwritten(round, 500));
        store.flush();
        let file = StoreFolder::open(folder.path()).expect("opens").list().pop().expect("an entry");
        let mut bytes = fs::read(&file.path).expect("readable");
        match round % 3 {
            0 => bytes.truncate(round as usize * 2),
            1 => bytes.push(0),
            _ => {
                let at = round as usize * 7 % bytes.len();
                bytes[at] ^= 1 << (round % 8);
            }
        }
        fs::write(&file.path, bytes).expect("writable");
        assert!(!holds(&store, round, 500) && !store.contains(&key(round)), "round {round}");
        assert_eq!(store.counts().damaged, round + 1);
    }
}

#[test]
fn a_disk_that_refuses_is_counted_and_harmless() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    // A file where the folder of the entry would be: it cannot be written.
    let name = format!("{:02x}", key(5)[0]);
    fs::write(folder.path().join("v1").join(name), b"in the way").expect("writable");
    store.put(unwritten(5, 10));
    store.flush();
    let counts = store.counts();
    assert_eq!((counts.written, counts.dropped), (0, 1));
    assert!(counts.failure.is_some() && !holds(&store, 5, 10));
    let refused = PageStore::open(
        &folder.path().join("v1").join(format!("{:02x}", key(5)[0])),
        8 << 20,
        None,
        Reporter::default(),
    );
    assert!(refused.is_err_and(|e| e.to_string().contains("the folder of the prefix cache cannot be used")));
    assert!(PageStore::open(folder.path(), 10, None, Reporter::default()).is_err());
}

/// Who has another key, or none, sees nothing of what is signed, and cannot put anything in its place.
#[test]
fn signed_entries_are_those_of_one_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = |letter: &str| {
        let key = CacheKey::new(&letter.repeat(32)).expect("long enough");
        PageStore::open(folder.path(), 2 << 20, key, Reporter::default()).expect("opens")
    };
    let parts = |store: &PageStore| {
        store.read(&wanted(1)).map(|found| found.parts().map(<[u8]>::to_vec).collect::<Vec<_>>())
    };
    let (own, other, plain) = (store("k"), store("l"), store(""));
    assert!(own.put(unwritten(1, 100)));
    own.flush();
    assert_eq!(parts(&own).expect("signed"), unwritten(1, 100).parts);
    assert!(own.contains(&key(1)) && parts(&store("k")).is_some());
    assert!(
        !other.contains(&key(1))
            && parts(&other).is_none()
            && !plain.contains(&key(1))
            && parts(&plain).is_none()
    );
    // All of them may keep the same entry, each its own.
    for one in [&other, &plain] {
        assert!(one.put(unwritten(1, 100)));
        one.flush();
        assert_eq!(parts(one).expect("written"), unwritten(1, 100).parts);
    }
    let files = StoreFolder::open(folder.path()).expect("opens");
    let name = CacheKey::new(&"k".repeat(32)).expect("long enough").expect("a key").name(&key(1));
    let signed = files.list().into_iter().find(|file| file.key == name).expect("under its name");
    // Whole by its checksum, and no signature.
    fs::write(&signed.path, Unwritten { key: name, ..unwritten(1, 100) }.entry().bytes()).expect("writable");
    assert!(parts(&own).is_none() && !signed.path.exists());
    assert_eq!((own.counts().damaged, other.counts().damaged), (1, 0));
}

#[test]
fn several_stores_share_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (open(folder.path(), 2 << 20), open(folder.path(), 2 << 20));
    thread::scope(|threads| {
        for (store, first) in [(&a, 0), (&b, 50)] {
            threads.spawn(move || {
                for i in first..first + 100 {
                    store.put(unwritten(i, 30_000));
                    holds(store, i / 2, 30_000);
                }
                store.flush();
            });
        }
    });
    assert_eq!((a.counts().damaged, b.counts().damaged), (0, 0));
    // Readers may have been ahead of the writers until here; what both left is found by either.
    let found = |store| (0..150).filter(|i| holds(store, *i, 30_000)).count();
    assert!(found(&a) > 0 && found(&a) == found(&b));
}

/// Kills of a writer: `LAMINA_KILLS=1000` is the long form.
#[test]
fn kills_leave_entries_whole_or_absent() {
    if let Ok(folder) = std::env::var(WRITER) {
        let store = open(folder.as_ref(), 64 << 20);
        println!("ready");
        for i in 0.. {
            store.put(unwritten(i % 4000, 20_000));
            if i % 8 == 0 {
                store.flush();
            }
        }
    }
    let kills = std::env::var("LAMINA_KILLS").map_or(20, |n| n.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..kills {
        let me = std::env::current_exe().expect("a path");
        let mut writer = Command::new(me)
            .args(["--exact", "store::kills_leave_entries_whole_or_absent", "--nocapture"])
            .env(WRITER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut out = writer.stdout.take().expect("piped");
        let mut seen = String::new();
        while !seen.contains("ready") {
            let mut byte = [0];
            assert_eq!(out.read(&mut byte).expect("readable"), 1, "the writer ended: {seen}");
            seen.push(byte[0] as char);
        }
        thread::sleep(Duration::from_micros(round * 7919 % 20_000));
        writer.kill().expect("can be killed");
        writer.wait().expect("ends");
    }
    let store = open(folder.path(), 64 << 20);
    let stored = StoreFolder::open(folder.path()).expect("opens").list();
    assert!(!stored.is_empty());
    let known: Vec<Key> = (0..4000).map(key).collect();
    for entry in stored {
        let i = known.iter().position(|k| *k == entry.key).expect("a key of the writer") as u64;
        assert!(holds(&store, i, 20_000), "{}", entry.path.display());
    }
    assert_eq!(store.counts().damaged, 0);
}

/// What lies under the name of an entry and is no file is no entry: nobody waits for who writes to a pipe.
#[cfg(unix)]
#[test]
fn pipes_and_devices_in_the_folder_are_missing_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    (0..3).for_each(|i| assert!(store.put(unwritten(i, 1000))));
    store.flush();
    let files = StoreFolder::open(folder.path()).expect("opens");
    let path = |i: u64| files.list().into_iter().find(|e| e.key == key(i)).expect("listed").path;
    let (pipe, device) = (path(0), path(1));
    fs::remove_file(&pipe).expect("removed");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    fs::remove_file(&device).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &device).expect("linked");
    let read = thread::spawn(move || {
        assert!(!holds(&store, 0, 1000) && !holds(&store, 1, 1000) && holds(&store, 2, 1000));
        assert!(store.put(unwritten(0, 1000)), "the entry takes the place of the pipe");
        store.flush();
        assert!(holds(&store, 0, 1000));
    });
    for _ in 0..600 {
        if read.is_finished() {
            return read.join().expect("entries are right");
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("a reader waits at a pipe or reads a device without end");
}

/// Set for the process that may read a folder alone.
#[cfg(target_os = "linux")]
const READER: &str = "LAMINA_TEST_STORE_READER";

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_can_only_be_read_is_read() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    if let Some(folder) = std::env::var_os(READER) {
        let store = open(Path::new(&folder), 8 << 20);
        assert!(!store.is_writable() && holds(&store, 3, 1000) && !holds(&store, 4, 1000));
        assert!(!store.room(1) && !store.put(unwritten(4, 1000)));
        drop(store);
        eprintln!("read alone");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    assert!(store.put(unwritten(3, 1000)));
    drop(store);
    let of_all =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    let entry = StoreFolder::open(folder.path()).expect("opens").list().remove(0).path;
    of_all(&entry, 0o444);
    entry.ancestors().skip(1).take(3).for_each(|folder| of_all(folder, 0o555));
    let exe = std::env::current_exe().expect("known");
    let mut command = Command::new(&exe);
    command.args(["--exact", "store::a_folder_that_can_only_be_read_is_read", "--nocapture"]);
    command.env(READER, folder.path());
    // Whoever may do everything may write too: such a one is somebody else for the test.
    let root = fs::File::create(folder.path().join("probe")).is_ok();
    let ran = if root { command.uid(65_534).gid(65_534) } else { &mut command }.output();
    entry.ancestors().skip(1).take(3).for_each(|folder| of_all(folder, 0o755));
    let Ok(ran) = ran else { return };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("read alone"), "{said}");
}

/// Names the file that a writer of [`killed_writers_leave_the_old_file_alone`] writes.
const FILE: &str = "LAMINA_TEST_ENTRY_FILE";

#[cfg(target_os = "linux")]
#[test]
fn killed_writers_leave_the_old_file_alone() {
    let write = |path: &Path| {
        let mut file = EntryFileWriter::create(path, b"LMNTEST2").expect("made");
        for i in 0..100 {
            file.push(&entry(i, 100_000)).expect("written");
            eprintln!("entry");
        }
        file
    };
    if let Some(path) = std::env::var_os(FILE) {
        let _file = write(Path::new(&path));
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    fs::write(&path, "the old file").expect("written");
    for entries in [1, 50, 100] {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "store::killed_writers_leave_the_old_file_alone", "--nocapture"])
            .env(FILE, &path)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        assert_eq!(lines.map_while(Result::ok).filter(|l| l == "entry").take(entries).count(), entries);
        child.kill().expect("killed");
        child.wait().expect("ends");
        assert_eq!(fs::read(&path).expect("readable"), b"the old file");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1, "nothing is left beside");
    }
    write(&path).finish().expect("finished");
    assert!(fs::metadata(&path).expect("there").len() > 10_000_000);
}
