//! `lamina rm`: removes a model from the hub's cache.

use super::Execute;
use crate::{
    error::{CliError, Result},
    output,
};
use indicatif::DecimalBytes;
use lamina::hub::{Hub, ModelName};
use serde_json::json;

/// Remove a model from the hub's cache
///
/// What another revision needs stays. Models of Ollama and LM Studio are theirs to remove.
#[derive(clap::Args)]
pub struct RemovalArgs {
    /// hf:org/repo[:TAG|/FILE][@REVISION], as `lamina list` names it; without TAG and FILE all of the repository
    name: String,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for RemovalArgs {
    const NAME: &'static str = "rm";

    fn execute(self) -> Result<()> {
        let name = ModelName::parse(&self.name).map_err(lamina::name_error)?;
        let repo = match name.or_else(|| ModelName::meant(&self.name)) {
            Some(ModelName::Hub(repo)) => repo,
            _ => return Err(CliError::usage("only names of the hub, such as hf:org/repo, can be removed")),
        };
        let removed =
            Hub::of_the_environment().cache.remove(&repo, self.dry_run).map_err(lamina::name_error)?;
        if self.json {
            return output::json(
                &json!({ "removed": !self.dry_run, "paths": removed.paths, "bytes": removed.bytes }),
            );
        }
        let paths: String = removed.paths.iter().map(|path| format!("{}\n", path.display())).collect();
        let verb = if self.dry_run { "would free" } else { "freed" };
        output::text(&format!("{paths}{verb} {}\n", DecimalBytes(removed.bytes)))
    }
}
