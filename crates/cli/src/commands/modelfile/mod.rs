//! `lamina convert-modelfile`: a Modelfile of Ollama as a file of settings for `lamina serve`.

mod parse;
mod settings;

use super::Execute;
use crate::{
    error::{CliError, Result},
    input,
    output::{self, note},
    write_file::write_file,
};
use parse::instructions;
use settings::settings;
use std::path::{Path, PathBuf};

/// Write what a Modelfile of Ollama says as settings for `lamina serve --config`
///
/// FROM, PARAMETER, SYSTEM and ADAPTER become settings. A TEMPLATE is in Go's language and is left out: the template in the model's
/// file holds, or a Jinja file that --chat-template names. What is left out is told.
#[derive(clap::Args)]
pub struct ModelfileArgs {
    /// The Modelfile; `ollama show --modelfile NAME` writes one
    #[arg(value_name = "MODELFILE")]
    input: PathBuf,
    /// File of settings to write, in TOML [default: stdout]
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// What requests call the model [default: the name of the folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Execute for ModelfileArgs {
    const NAME: &'static str = "convert-modelfile";

    fn execute(self) -> Result<()> {
        let wrong = |problem| CliError::Content { path: self.input.clone(), problem };
        let folder = std::path::absolute(&self.input)?.parent().unwrap_or(Path::new("/")).to_owned();
        let named = || folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(named).unwrap_or_else(|| "model".to_owned());
        let all = instructions(&input::file_text(&self.input)?).map_err(wrong)?;
        let found = settings(&all, &name, &folder).map_err(wrong)?;
        found.left_out.iter().for_each(|line| note(&format!("left out: {line}")));
        match &self.output {
            Some(path) => write_file(path, found.text.as_bytes()),
            None => output::text(&found.text),
        }
    }
}
