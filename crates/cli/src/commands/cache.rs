//! `lamina cache`: what a cache on disk holds, whether it is whole, and making room.

use super::Execute;
use crate::{
    args::size,
    error::{CliError, Result},
    output,
    table::pairs,
};
use indicatif::DecimalBytes;
use lamina::disk::{StoreFolder, StoredEntry};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// List, verify or prune a cache of computed beginnings on disk
#[derive(clap::Args)]
pub struct CacheFolderArgs {
    #[command(subcommand)]
    action: CacheAction,
}

#[derive(clap::Subcommand)]
enum CacheAction {
    /// Say what the folder holds
    List(FolderArgs),
    /// Read all entries and remove those that are damaged
    Verify(FolderArgs),
    /// Remove entries until the rest takes at most --to: those that were never read again first, the oldest first
    Prune {
        #[command(flatten)]
        folder: FolderArgs,
        /// What may be left, such as 2G; without it everything goes
        #[arg(long, value_name = "SIZE", value_parser = size)]
        to: Option<u64>,
    },
}

#[derive(clap::Args)]
struct FolderArgs {
    /// The folder, as --cache-dir names it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for CacheFolderArgs {
    const NAME: &'static str = "cache";

    fn execute(self) -> Result<()> {
        match self.action {
            CacheAction::List(args) => args.show(&summary(&open(&args.dir)?.list())),
            CacheAction::Verify(args) => {
                let damaged = verify(&open(&args.dir)?)?;
                args.show(&damaged)
            }
            CacheAction::Prune { folder, to } => {
                let store = open(&folder.dir)?;
                let before = store.list().iter().map(|e| e.bytes).sum::<u64>();
                let left = store.prune(to.unwrap_or(0));
                folder.show(&json!({ "removed_bytes": before - left, "left_bytes": left }))
            }
        }
    }
}

impl FolderArgs {
    fn show(&self, found: &Value) -> Result<()> {
        match self.json {
            true => output::json(found),
            false => output::text(&pairs(found.as_object().into_iter().flatten().map(line))),
        }
    }
}

fn line((key, value): (&String, &Value)) -> (String, String) {
    let text = match value.as_u64() {
        Some(n) if key.ends_with("bytes") => DecimalBytes(n).to_string(),
        Some(n) if key.ends_with("seconds") => humantime(n),
        _ => value.to_string(),
    };
    (key.trim_end_matches("_seconds").replace('_', " "), text)
}

fn humantime(seconds: u64) -> String {
    indicatif::HumanDuration(Duration::from_secs(seconds)).to_string()
}

/// The folder, which has to be there.
fn open(dir: &Path) -> Result<StoreFolder> {
    let wrong = |problem: String| CliError::Content { path: dir.into(), problem };
    if !dir.join("v1").is_dir() {
        return Err(wrong("is no cache folder: --cache-dir makes one".into()));
    }
    StoreFolder::open(dir).map_err(|e| wrong(e.to_string()))
}

fn summary(entries: &[StoredEntry]) -> Value {
    let age = |e: &StoredEntry| SystemTime::now().duration_since(e.last_use).unwrap_or_default().as_secs();
    let bytes = |entries: &[&StoredEntry]| entries.iter().map(|e| e.bytes).sum::<u64>();
    let (all, again): (Vec<_>, Vec<_>) =
        (entries.iter().collect(), entries.iter().filter(|e| e.used).collect());
    json!({
        "entries": all.len(),
        "bytes": bytes(&all),
        "read_again": again.len(),
        "read_again_bytes": bytes(&again),
        "last_use_seconds": entries.iter().map(age).min(),
        "first_use_seconds": entries.iter().map(age).max(),
    })
}

fn verify(store: &StoreFolder) -> Result<Value> {
    let entries = store.list();
    let damaged: Vec<_> = entries.iter().filter(|e| !store.is_whole(e)).collect();
    damaged.iter().try_for_each(|e| store.remove(e))?;
    Ok(json!({ "entries": entries.len(), "damaged_and_removed": damaged.len() }))
}
