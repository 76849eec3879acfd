//! `lamina list`: models that are on this machine.

use super::Execute;
use crate::{
    error::Result,
    output::{self, note},
    table::table,
};
use indicatif::{DecimalBytes, HumanDuration};
use lamina::{
    available_memory,
    hub::{Hub, StoredModel, list_all},
};
use serde_json::{Value, json};
use std::time::SystemTime;

/// List the models that are on this machine: in the hub's cache, in Ollama's store, in LM Studio's folder
#[derive(clap::Args)]
pub struct ListArgs {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// A model with what its header says.
struct ListedModel {
    model: StoredModel,
    /// Type of most weights; none where the file cannot be read.
    type_name: Option<String>,
    fits: bool,
}

impl Execute for ListArgs {
    const NAME: &'static str = "list";

    fn execute(self) -> Result<()> {
        let hub = Hub::of_the_environment();
        let memory = available_memory().unwrap_or(u64::MAX);
        let listed = list_all(&hub.cache, &hub.ollama, &hub.lm_studio).into_iter().map(|model| ListedModel {
            type_name: lamina::checkpoint(Some(&model.path)).ok().map(|ck| lamina::type_name(&ck)),
            fits: model.bytes <= memory,
            model,
        });
        let listed: Vec<_> = listed.collect();
        if self.json {
            return output::json(
                &json!({ "models": listed.iter().map(ListedModel::json).collect::<Vec<_>>() }),
            );
        }
        if listed.is_empty() {
            note("no models are here yet: `lamina search WORDS` finds some, `lamina pull NAME` fetches one");
        }
        let heads = ["name", "size", "type", "used last", "fits"];
        output::text(&table(&heads, &[1], listed.iter().map(ListedModel::row)))
    }
}

impl ListedModel {
    fn age(&self) -> Option<std::time::Duration> {
        SystemTime::now().duration_since(self.model.used?).ok()
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.model.name.clone(),
            DecimalBytes(self.model.bytes).to_string(),
            self.type_name.clone().unwrap_or_else(|| "unreadable".to_owned()),
            self.age().map_or_else(|| "unknown".to_owned(), |age| format!("{} ago", HumanDuration(age))),
            if self.fits { "in memory" } else { "from disk" }.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.model.name,
            "store": self.model.store.name(),
            "path": self.model.path,
            "bytes": self.model.bytes,
            "type": self.type_name,
            "used_seconds_ago": self.age().map(|age| age.as_secs()),
            "fits_memory": self.fits,
        })
    }
}
