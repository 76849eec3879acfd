//! The answers of a batch on disk: always the first ones of its lines, in their order.

use super::request::BatchLine;
use crate::error::{CliError, Result};
use lamina::files;
use serde_json::Value;
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

/// Answers so far, and where the next goes.
pub struct BatchOutput {
    file: File,
    path: PathBuf,
    written: usize,
    refused: usize,
}

impl BatchOutput {
    /// The file at `path` behind what it has of the answers to `lines`; what a kill has cut off is taken away.
    ///
    /// # Errors
    /// When it holds something else, or cannot be written.
    pub fn open(path: &Path, lines: &[BatchLine], anew: bool) -> Result<BatchOutput> {
        let failed = |action| move |source| CliError::File { action, path: path.to_owned(), source };
        let file = files::open_lock(path).map_err(failed("write"))?;
        file.try_lock().map_err(|e| failed("write")(e.into()))?;
        let bytes = match anew {
            true => vec![],
            false => files::read_regular(path, u64::MAX).map_err(failed("read"))?,
        };
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        let (mut written, mut refused) = (0, 0);
        for line in bytes[..whole].split_inclusive(|&b| b == b'\n') {
            let answer: Value = serde_json::from_slice(line).unwrap_or_default();
            if lines.get(written).is_none_or(|l| answer.get("custom_id") != Some(&l.custom_id)) {
                return Err(foreign(path, written + 1));
            }
            written += 1;
            refused += usize::from(is_refusal(&answer));
        }
        file.set_len(whole as u64).map_err(failed("write"))?;
        Ok(BatchOutput { file, path: path.to_owned(), written, refused })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers that it has.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Those that answer, and those that refuse.
    pub fn counts(&self) -> (usize, usize) {
        (self.written - self.refused, self.refused)
    }

    /// Adds the next answer.
    pub fn write(&mut self, line: &str) -> Result<()> {
        // In one piece: what dies on the way leaves a line without an end, or none.
        let failed = |source| CliError::File { action: "write", path: self.path.clone(), source };
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
        self.written += 1;
        self.refused += usize::from(is_refusal(&serde_json::from_str(line).unwrap_or_default()));
        Ok(())
    }
}

fn is_refusal(answer: &Value) -> bool {
    !(200..300).contains(&answer["response"]["status_code"].as_u64().unwrap_or(0))
}

fn foreign(path: &Path, line: usize) -> CliError {
    let problem = format!("line {line} is no answer to these requests in their order; --force begins anew");
    CliError::Content { path: path.to_owned(), problem }
}
