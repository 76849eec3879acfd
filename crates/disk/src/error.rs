//! Errors of files of panels, and of a store's folder. What is wrong with single entries is a miss, not an error.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The folder cannot be made, read or written.
    #[error("{}: the folder of the prefix cache cannot be used: {source}; name another one or free space", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The key could be guessed.
    #[error(
        "LAMINA_CACHE_KEY has {length} characters, but needs 32: take the text of `openssl rand -hex 32`"
    )]
    Key {
        /// Its characters.
        length: usize,
    },
    /// The budget holds no entry.
    #[error("a prefix cache on disk needs at least 1 MiB, and {bytes} bytes were given")]
    Budget {
        /// The budget.
        bytes: u64,
    },
}

/// A file whose whole length is asked for before it is used cannot be made.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {} in {}, which cannot be had: {source}; {advice}",
    lamina_base::human_bytes(*bytes),
    folder.display()
)]
pub struct NoRoom {
    /// Whose file it is, as the beginning of a sentence.
    pub what: &'static str,
    /// Where it should be.
    pub folder: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// What the system says.
    pub source: io::Error,
    /// What to do.
    pub advice: &'static str,
}

/// Why pages of a cache that lies on disk cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CachePageError {
    /// The system refused.
    #[error("page {page} of layer {layer} of the cache cannot be {what} on disk: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Layer of the cache.
        layer: usize,
        /// The first page of those that were moved at once.
        page: u32,
        /// What the system says.
        source: io::Error,
    },
    /// Other bytes came back than were written.
    #[error(
        "page {page} of layer {layer} of the cache came back from disk with a wrong checksum: the disk may be failing"
    )]
    Damaged {
        /// Layer of the cache.
        layer: usize,
        /// The page.
        page: u32,
    },
    /// It could not be written before.
    #[error("page {page} of layer {layer} of the cache is lost: it could not be written to disk before")]
    Lost {
        /// Layer of the cache.
        layer: usize,
        /// The page.
        page: u32,
    },
}

/// Why a file of entries cannot be read: the end of a sentence that names it.
#[derive(Debug, thiserror::Error)]
pub enum EntryFileError {
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// It begins as nothing of this kind does.
    #[error("is of another kind")]
    Kind,
    /// It is of another version of the form.
    #[error("is of another version of the form")]
    Version,
    /// It is not what was written.
    #[error("is damaged: {0}")]
    Damaged(String),
}

/// Why a file of panels cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PanelError {
    /// The system refused.
    #[error("cannot {what} {}: {source}", file.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// File or folder.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no whole file of panels.
    #[error("{}: {problem}; it is removed: load the model again, and it is written anew", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The disk has no room.
    #[error(transparent)]
    Full(NoRoom),
}

impl PanelError {
    pub(crate) fn io(what: &'static str, file: &Path, source: io::Error) -> PanelError {
        PanelError::Io { what, file: file.to_owned(), source }
    }

    pub(crate) fn broken(file: &Path, problem: &str) -> PanelError {
        PanelError::Broken { file: file.to_owned(), problem: problem.to_owned() }
    }
}
