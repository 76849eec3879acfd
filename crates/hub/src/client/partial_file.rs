//! A file that has arrived in part, and which parts, so that what is missing alone is fetched after a break, a crash or a
//! kill.

use super::ranges::ByteRanges;
use crate::{
    cache::write_whole,
    error::{HubError, Result},
};
use lamina_base::files::read_regular;
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How often it is noted what has arrived.
const NOTE: Duration = Duration::from_millis(200);
/// Most bytes of that note.
const MOST_NOTE: u64 = 4 << 20;
/// The ending of the hub's own client, for what is swept away, behind one of ours: its client goes on at the end of a file
/// of that name, and would take one with gaps, which has all its length at once, for whole.
const ENDING: &str = ".lamina.incomplete";

/// A file that has arrived in part.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    path: PathBuf,
    note: PathBuf,
    size: Option<u64>,
    done: ByteRanges,
    noted: Instant,
}

impl PartialFile {
    /// What will be `target`, of `size` bytes where that is known. Another program's note, or one of another size, counts for
    /// nothing.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(target: &Path, size: Option<u64>) -> Result<PartialFile> {
        let (path, note) = (beside(target, ENDING), beside(target, ".lamina.ranges"));
        let done = read_note(&note, size).filter(|_| path.is_file()).unwrap_or_default();
        if path.symlink_metadata().is_ok_and(|about| !about.is_file()) {
            return Err(HubError::file("write", path)(io::Error::other("it is no regular file")));
        }
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(HubError::file("write", &path))?;
        file.set_len(size.unwrap_or(0)).map_err(HubError::file("write", &path))?;
        Ok(PartialFile { file, path, note, size, done, noted: Instant::now() })
    }

    /// Bytes of `target` that an earlier attempt left.
    pub fn left(target: &Path, size: Option<u64>) -> u64 {
        let note = read_note(&beside(target, ".lamina.ranges"), size);
        note.filter(|_| beside(target, ENDING).is_file()).map_or(0, |done| done.total())
    }

    /// Where its bytes are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What has arrived.
    pub fn done(&self) -> &ByteRanges {
        &self.done
    }

    /// Puts `bytes` in their place, and notes that from time to time.
    ///
    /// # Errors
    /// When the disk is full, or the system refuses.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(bytes));
        written.map_err(HubError::file("write", &self.path))?;
        self.done.insert(at..at + bytes.len() as u64);
        if self.noted.elapsed() > NOTE { self.take_note() } else { Ok(()) }
    }

    /// Begins anew.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn restart(&mut self) -> Result<()> {
        self.done = ByteRanges::default();
        self.take_note()
    }

    /// It is whole: `target` has its bytes from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(self, target: &Path) -> Result<()> {
        // A loss of power must not leave a whole name with half its bytes.
        let done = self.file.sync_all().and_then(|()| fs::rename(&self.path, target));
        done.map_err(HubError::file("write", target))
    }

    /// Takes it away.
    pub fn discard(mut self) {
        // What cannot be removed is overwritten by the next attempt.
        let _ = fs::remove_file(&self.path);
        self.size = None;
    }

    fn take_note(&mut self) -> Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        self.noted = Instant::now();
        let done: Vec<_> = self.done.iter().map(|r| json!([r.start, r.end])).collect();
        write_whole(&self.note, json!({ "size": size, "done": done }).to_string().as_bytes())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // Without a note, or with an older one, more is fetched again; a note without its file counts for nothing.
        let _ = match self.path.is_file() {
            true => self.take_note(),
            false => fs::remove_file(&self.note).map_err(HubError::file("write", &self.note)),
        };
    }
}

fn read_note(note: &Path, size: Option<u64>) -> Option<ByteRanges> {
    let note: Value = serde_json::from_slice(&read_regular(note, MOST_NOTE).ok()?).ok()?;
    let size = size.filter(|size| note["size"] == *size)?;
    let mut done = ByteRanges::default();
    for range in note["done"].as_array()? {
        let (start, end) = (range[0].as_u64()?, range[1].as_u64()?);
        done.insert(start..Some(end).filter(|end| start <= *end && *end <= size)?);
    }
    Some(done)
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = target.into();
    name.push(ending);
    name.into()
}
