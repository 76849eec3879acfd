//! What the hub has, and who asks.

use crate::{
    cache::make_folder,
    client::HubQuestion,
    error::{HubError, Result},
    hub::Hub,
    pull_job::{PullMeter, attend},
    settings::HubSettings,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::{fs, io::Write, path::Path};

/// Repositories of one answer.
const MOST_HITS: usize = 20;

/// A repository that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// `org/name`.
    pub repo: String,
    /// How often it was fetched lately.
    pub downloads: u64,
    /// How many liked it.
    pub likes: u64,
    /// Terms have to be accepted.
    pub gated: bool,
}

impl Hub {
    /// Repositories that match all words, the most fetched first; of `gguf` those with GGUF files alone.
    ///
    /// # Errors
    /// When the hub cannot be asked.
    pub fn search(&self, words: &str, gguf: bool) -> Result<Vec<SearchHit>> {
        let filter = if gguf { "&filter=gguf" } else { "" };
        let words = utf8_percent_encode(words, NON_ALPHANUMERIC);
        let path =
            format!("/api/models?search={words}&sort=downloads&direction=-1&limit={MOST_HITS}{filter}");
        let found = self.ask(&path)?;
        let hit = |hit: &Value| {
            Some(SearchHit {
                repo: hit["id"].as_str().or_else(|| hit["modelId"].as_str())?.to_owned(),
                downloads: hit["downloads"].as_u64().unwrap_or(0),
                likes: hit["likes"].as_u64().unwrap_or(0),
                gated: !matches!(hit["gated"], Value::Null | Value::Bool(false)),
            })
        };
        Ok(found.as_array().into_iter().flatten().filter_map(hit).collect())
    }

    /// Asks the hub whose token this is, and keeps it for the hub's clients.
    ///
    /// # Errors
    /// When the hub refuses the token, or it cannot be written.
    pub fn login(&self, token: &str) -> Result<String> {
        let settings = HubSettings { token: Some(token.to_owned()), ..self.settings.clone() };
        let who = Hub { settings, ..self.clone() }.ask("/api/whoami-v2")?;
        write_secret(&self.settings.token_file, token)?;
        Ok(who["name"].as_str().unwrap_or("somebody").to_owned())
    }

    /// Forgets the token that was kept; false where there was none.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn logout(&self) -> Result<bool> {
        let file = &self.settings.token_file;
        if !file.is_file() {
            return Ok(false);
        }
        fs::remove_file(file).map_err(HubError::file("write", file)).map(|()| true)
    }

    fn ask(&self, path: &str) -> Result<Value> {
        let asked = HubQuestion { repo: "", revision: "", file: "" };
        let remote = self.remote()?;
        attend(&(), &PullMeter::default(), self.pace.persist(async || remote.json(path, asked).await))
    }
}

/// Writes what its owner alone may read.
fn write_secret(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".token-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(HubError::file("write", path))
}
