//! Where new model files go.

use super::positive;
use crate::error::{CliError, Result};
use lamina::Setting;
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

/// Bytes written as `500M` or `2G`: thousands, as file sizes are counted.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let bytes = u64::read(text.as_ref()).ok().filter(|&n| n > 0);
    bytes.ok_or_else(|| "is no size; write it as 500M or 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_thousands() {
        for (text, bytes) in [("2G", 2_000_000_000), ("500m", 500_000_000), ("7kb", 7000), ("12", 12)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1G", "0", "2X", "99999999999999T", "é"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
