//! `lamina cache`: what a cache on disk holds, whether it is whole, and making room.

use super::{Execute, cache_panels};
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

/// The key of panels in what is listed.
const PANELS: &str = "panels";

/// List, verify or prune what is kept on disk: computed beginnings, and panels of weights larger than memory
#[derive(clap::Args)]
pub struct CacheFolderArgs {
    #[command(subcommand)]
    action: CacheAction,
}

#[derive(clap::Subcommand)]
enum CacheAction {
    /// Say what the folder holds
    List(FolderArgs),
    /// Read all entries and panels, and remove those that are damaged
    Verify(FolderArgs),
    /// Remove entries until the rest takes at most --to: those that were never read again first, the oldest first
    Prune {
        #[command(flatten)]
        folder: FolderArgs,
        /// What may be left, such as 2G; without it everything goes
        #[arg(long, value_name = "SIZE", value_parser = size)]
        to: Option<u64>,
        /// Remove panels instead: of models that are gone first, then of those that were not loaded for longest
        #[arg(long)]
        panels: bool,
    },
}

#[derive(clap::Args)]
struct FolderArgs {
    /// The folder, as --cache-dir or --panel-cache names it; without it the user's cache folder
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for CacheFolderArgs {
    const NAME: &'static str = "cache";

    fn execute(self) -> Result<()> {
        match self.action {
            CacheAction::List(args) => args.show(&list(&args.dir())?),
            CacheAction::Verify(args) => args.show(&verify(&args.dir())?),
            CacheAction::Prune { folder, to, panels: true } => {
                open(&folder.dir())?;
                folder.show(&cache_panels::prune(&folder.dir(), to.unwrap_or(0))?)
            }
            CacheAction::Prune { folder, to, panels: false } => {
                let Some(store) = open(&folder.dir())? else {
                    return Err(no_folder(&folder.dir(), "holds panels alone: --panels removes them"));
                };
                let before = store.list().iter().map(|e| e.bytes).sum::<u64>();
                let left = store.prune(to.unwrap_or(0));
                folder.show(&json!({ "removed_bytes": before - left, "left_bytes": left }))
            }
        }
    }
}

impl FolderArgs {
    fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(lamina::disk::cache_folder)
    }

    fn show(&self, found: &Value) -> Result<()> {
        if self.json {
            return output::json(found);
        }
        let (panels, rest): (Vec<_>, Vec<_>) =
            found.as_object().into_iter().flatten().partition(|(key, _)| *key == PANELS);
        let panels = panels.into_iter().flat_map(|(_, listed)| cache_panels::lines(listed));
        output::text(&pairs(rest.into_iter().map(line).chain(panels)))
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

/// The computed beginnings of a folder, if it has any; it has to keep these or panels.
fn open(dir: &Path) -> Result<Option<StoreFolder>> {
    if dir.join("v1").is_dir() {
        return StoreFolder::open(dir).map(Some).map_err(|e| no_folder(dir, &e.to_string()));
    }
    match dir.join("panels").is_dir() {
        true => Ok(None),
        false => Err(no_folder(dir, "is no cache folder: --cache-dir and --panel-cache make them")),
    }
}

fn no_folder(dir: &Path, problem: &str) -> CliError {
    CliError::Content { path: dir.into(), problem: problem.into() }
}

fn list(dir: &Path) -> Result<Value> {
    let mut found = open(dir)?.map_or_else(|| json!({}), |store| summary(&store.list()));
    if let Some(panels) = cache_panels::list(dir) {
        found[PANELS] = panels;
    }
    Ok(found)
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

fn verify(dir: &Path) -> Result<Value> {
    let mut found = json!({});
    if let Some(store) = open(dir)? {
        let entries = store.list();
        let damaged: Vec<_> = entries.iter().filter(|e| !store.is_whole(e)).collect();
        damaged.iter().try_for_each(|e| store.remove(e))?;
        found = json!({ "entries": entries.len(), "damaged_and_removed": damaged.len() });
    }
    if dir.join("panels").is_dir()
        && let (Value::Object(found), Value::Object(panels)) = (&mut found, cache_panels::verify(dir)?)
    {
        found.extend(panels);
    }
    Ok(found)
}
