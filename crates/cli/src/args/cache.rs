//! Where computed beginnings are kept.

use super::size;
use lamina::LoadOptions;
use std::path::PathBuf;

/// A cache of computed beginnings on disk.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loading")]
pub struct CacheArgs {
    /// Folder that keeps what was computed of prompts: the same beginning is read after a restart, or by other processes,
    /// instead of computed
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// What this folder may take on disk, such as 20G
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "10G", requires = "cache_dir")]
    cache_disk: u64,
}

impl CacheArgs {
    /// `options` with this cache.
    pub fn apply(&self, options: LoadOptions) -> LoadOptions {
        LoadOptions { cache_dir: self.cache_dir.clone(), cache_disk: self.cache_disk, ..options }
    }
}
