//! Plans of families of different shape, as text: what changes in a plan is seen in review.
//!
//! `LAMINA_SNAPSHOTS=write cargo test -p lamina-plan --test it snapshots::` rewrites the files.

use crate::common::{Model, Result, folders};
use std::{fs, path::PathBuf};

/// Attention, latent attention, delta net, side by side, state space, experts with sinks.
const MODELS: &[&str] = &["llama", "deepseek-v3", "qwen3-next", "gemma2", "phi2", "mamba2", "gpt-oss"];

#[test]
fn plans_are_what_they_were() -> Result<()> {
    let write = std::env::var("LAMINA_SNAPSHOTS").is_ok_and(|v| v == "write");
    let mut changed = vec![];
    for folder in folders() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !MODELS.contains(&name.as_str()) || !folder.join("config.json").exists() {
            continue;
        }
        let plan = Model::open(&folder)?.plan.to_string();
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
        if write {
            fs::write(&file, &plan)?;
        } else if fs::read_to_string(&file)? != plan {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "plans of {changed:?} changed; see the top of this file");
    Ok(())
}
