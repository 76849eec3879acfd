//! Adapters beside a model.

use super::load::load;
use crate::error::Result;
use lamina::{AdapterPath, LoadOptions, Model};
use std::path::Path;

/// Adapters that all requests of a command use.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loading")]
pub struct LoraArgs {
    /// Low-rank adapter to use, a folder of PEFT or a GGUF adapter, at this scale [default: 1]; may be repeated
    #[arg(long, value_name = "[NAME=]PATH[@SCALE]")]
    lora: Vec<AdapterPath>,
}

impl LoraArgs {
    /// Loads the model at `path`, or the one inside the package, with its adapters in use.
    pub fn load(&self, path: Option<&Path>, options: LoadOptions) -> Result<Model> {
        // Whole paths: files in different folders may have one stem.
        let name = |l: &AdapterPath| l.name.clone().unwrap_or_else(|| l.path.display().to_string());
        let loras = self.lora.iter().map(|l| (name(l), l.path.clone())).collect();
        let model = load(path, &LoadOptions { loras, ..options })?;
        let used: Vec<_> = self.lora.iter().map(|l| (name(l), l.scale)).collect();
        Ok(model.with_lora(&used)?)
    }
}
