//! Checksums of files, computed on a thread while their bytes arrive.

use crate::error::{HubError, Result};
use lamina_base::files::open_regular;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// What a file's bytes must add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksum {
    /// SHA-256 in hexadecimal digits, of large files.
    Sha256(String),
    /// SHA-1 as git has it of small files: with a head that says their length.
    Git(String),
    /// The server says none.
    None,
}

impl Checksum {
    /// The sum that an etag of the hub is.
    pub fn of_etag(etag: &str) -> Checksum {
        match (etag.len(), etag.bytes().all(|b| b.is_ascii_hexdigit())) {
            (64, true) => Checksum::Sha256(etag.to_ascii_lowercase()),
            (40, true) => Checksum::Git(etag.to_ascii_lowercase()),
            _ => Checksum::None,
        }
    }

    /// Compares the bytes of a file with it.
    ///
    /// # Errors
    /// When they differ, or cannot be read.
    pub fn check(&self, path: &Path, file: &str) -> Result<()> {
        let size = path.metadata().map_err(HubError::file("read", path))?.len();
        let follower = DigestThread::follow(path, self, size);
        follower.advance(size);
        follower.finish(self, file)
    }

    fn begin(&self, size: u64) -> Option<Context> {
        match self {
            Checksum::Sha256(_) => Some(Context::new(&SHA256)),
            Checksum::Git(_) => {
                let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                context.update(format!("blob {size}\0").as_bytes());
                Some(context)
            }
            Checksum::None => None,
        }
    }
}

/// A thread that follows a file as it grows.
pub struct DigestThread {
    grown: Sender<u64>,
    thread: Option<JoinHandle<std::io::Result<String>>>,
    path: PathBuf,
}

impl DigestThread {
    /// Follows the file at `path`, which will have `size` bytes.
    pub fn follow(path: &Path, sum: &Checksum, size: u64) -> DigestThread {
        let (grown, news) = channel();
        let (context, of) = (sum.begin(size), path.to_owned());
        let thread = context.map(|context| thread::spawn(move || read_along(context, &of, &news)));
        DigestThread { grown, thread, path: path.to_owned() }
    }

    /// The first `len` bytes are final.
    pub fn advance(&self, len: u64) {
        // Who ended early tells why at the end.
        let _ = self.grown.send(len);
    }

    /// Compares the sum of what was announced with `sum`.
    ///
    /// # Errors
    /// When they differ, or the file could not be read.
    pub fn finish(self, sum: &Checksum, file: &str) -> Result<()> {
        drop(self.grown);
        let (kind, expected) = match sum {
            Checksum::Sha256(sum) => ("sha256", sum.clone()),
            Checksum::Git(sum) => ("git sha1", sum.clone()),
            Checksum::None => return Ok(()),
        };
        let read = self.thread.map_or(Ok(String::new()), |thread| {
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread of checksums ended")))
        });
        let found = read.map_err(HubError::file("read", &self.path))?;
        if found == expected {
            Ok(())
        } else {
            Err(HubError::Checksum { file: file.to_owned(), kind, expected, found })
        }
    }
}

fn read_along(mut context: Context, path: &Path, news: &Receiver<u64>) -> std::io::Result<String> {
    let (mut file, mut at, mut block): (Option<File>, u64, _) = (None, 0, vec![0; BLOCK]);
    for grown in news {
        while at < grown {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(open_regular(path)?),
            };
            let len = BLOCK.min(usize::try_from(grown - at).unwrap_or(BLOCK));
            file.read_exact(&mut block[..len])?;
            context.update(&block[..len]);
            at += len as u64;
        }
    }
    Ok(hex(context.finish().as_ref()))
}

/// SHA-256 of a text in hexadecimal digits.
pub fn text_digest(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
