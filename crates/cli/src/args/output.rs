//! Where new model files go.

use super::{positive, size};
use crate::error::{CliError, Result};
use std::{fs, path::Path};

/// Whether files may be replaced.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

impl OutputArgs {
    /// Refuses to write over `path`, or over shards of that name, unless that was asked for.
    pub fn check(&self, path: &Path) -> Result<()> {
        if path.is_dir() {
            let problem = "is a folder; give the name of a file".to_owned();
            return Err(CliError::Content { path: path.to_owned(), problem });
        }
        match (self.force, path.exists().then(|| path.to_owned()).or_else(|| shard_of(path))) {
            (false, Some(there)) => Err(CliError::Exists(there)),
            _ => Ok(()),
        }
    }
}

/// A file that is a shard of the split form of `path`.
fn shard_of(path: &Path) -> Option<std::path::PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_shard = |name: &str| {
        let numbers = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".gguf")?;
        let (number, count) = numbers.split_once("-of-")?;
        let digits = |s: &str| s.len() >= 5 && s.bytes().all(|b| b.is_ascii_digit());
        (digits(number) && digits(count)).then_some(())
    };
    let mut names = fs::read_dir(folder).ok()?.flatten();
    names.find(|e| e.file_name().to_str().and_then(is_shard).is_some()).map(|e| e.path())
}

/// Into how many files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Splitting")]
pub struct SplitArgs {
    /// Split into files of at most about this size, such as 2G or 500M
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub split_max_size: Option<u64>,
    /// Split into files of at most so many tensors
    #[arg(long, value_name = "N", value_parser = positive())]
    pub split_max_tensors: Option<usize>,
}
