//! `lamina search`: repositories of the hub.

use super::Execute;
use crate::{error::Result, output, table::table};
use lamina::hub::{Hub, SearchHit};
use serde_json::json;

/// Search the hub for models, the most fetched first
#[derive(clap::Args)]
pub struct SearchArgs {
    /// Words of names
    #[arg(required = true)]
    words: Vec<String>,
    /// Only repositories with GGUF files
    #[arg(long)]
    gguf: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for SearchArgs {
    const NAME: &'static str = "search";

    fn execute(self) -> Result<()> {
        let hits = Hub::of_the_environment().search(&self.words.join(" "), self.gguf);
        let hits = hits.map_err(lamina::name_error)?;
        if self.json {
            let object = |hit: &SearchHit| json!({ "name": format!("hf:{}", hit.repo), "downloads": hit.downloads, "likes": hit.likes, "gated": hit.gated });
            return output::json(&json!({ "models": hits.iter().map(object).collect::<Vec<_>>() }));
        }
        let row = |hit: &SearchHit| {
            let gate = if hit.gated { "gated" } else { "" };
            vec![
                format!("hf:{}", hit.repo),
                hit.downloads.to_string(),
                hit.likes.to_string(),
                gate.to_owned(),
            ]
        };
        output::text(&table(&["name", "downloads", "likes", ""], &[1, 2], hits.iter().map(row)))
    }
}
