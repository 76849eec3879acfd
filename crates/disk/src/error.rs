//! Errors of a store's folder. What is wrong with single entries is a miss, not an error.

use std::{io, path::PathBuf};

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
    /// The budget holds no entry.
    #[error("a prefix cache on disk needs at least 1 MiB, and {bytes} bytes were given")]
    Budget {
        /// The budget.
        bytes: u64,
    },
}
