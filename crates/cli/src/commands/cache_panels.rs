//! What `lamina cache` does about weights that are kept on disk as panels.

use crate::error::{CliError, Result};
use indicatif::DecimalBytes;
use lamina::disk::{KeptPanels, kept_panels};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Whose panels are kept below a folder; none where it keeps none.
pub fn list(dir: &Path) -> Option<Value> {
    let all = kept_panels(dir);
    let one = |kept: &KeptPanels| {
        json!({
            "folder": kept.path,
            "model": kept.sources,
            "model_is_gone": kept.is_orphaned(),
            "bytes": kept.bytes,
            "last_use_seconds": SystemTime::now().duration_since(kept.last_use).unwrap_or_default().as_secs(),
        })
    };
    (!all.is_empty()).then(|| all.iter().map(one).collect())
}

/// A line of text for each model of [`list`].
pub fn lines(listed: &Value) -> Vec<(String, String)> {
    let one = |kept: &Value| {
        let name = kept["model"][0].as_str().unwrap_or("an unknown model");
        let gone = if kept["model_is_gone"] == true { ", which is gone" } else { "" };
        let bytes = DecimalBytes(kept["bytes"].as_u64().unwrap_or(0));
        ("panels".to_owned(), format!("{bytes} of {name}{gone}"))
    };
    listed.as_array().into_iter().flatten().map(one).collect()
}

/// Reads all panels below a folder, and removes files that are damaged.
///
/// # Errors
/// When a file cannot be read.
pub fn verify(dir: &Path) -> Result<Value> {
    let (mut files, mut damaged): (usize, Vec<PathBuf>) = (0, vec![]);
    for kept in kept_panels(dir) {
        files += kept.files.len();
        damaged.extend(kept.verify().map_err(|e| wrong(&kept.path, e.to_string()))?);
    }
    Ok(json!({ "panel_files": files, "damaged_panel_files_removed": damaged.len() }))
}

/// Removes panels until the rest takes at most `budget` bytes: first those whose model is gone, then those of models that
/// were not loaded for longest.
///
/// # Errors
/// When the system refuses.
pub fn prune(dir: &Path, budget: u64) -> Result<Value> {
    let mut all = kept_panels(dir);
    // Stable: the least recently used stay first among those of one kind.
    all.sort_by_key(|kept| !kept.is_orphaned());
    let before: u64 = all.iter().map(|kept| kept.bytes).sum();
    let mut left = before;
    for kept in &all {
        if left > budget && kept.remove().map_err(|e| wrong(&kept.path, e.to_string()))? {
            left -= kept.bytes;
        }
    }
    Ok(json!({ "removed_bytes": before - left, "left_bytes": left }))
}

fn wrong(path: &Path, problem: String) -> CliError {
    CliError::Content { path: path.into(), problem }
}
