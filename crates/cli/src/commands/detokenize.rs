//! `lamina detokenize`: tokens to text.

use super::Execute;
use crate::{
    args::FetchArgs,
    error::{CliError, Result},
    input, model_path, output,
};
use lamina::{Markers, tokenizer};
use serde_json::json;
use std::path::Path;

/// Show the text of token ids
#[derive(clap::Args)]
#[command(override_usage = "lamina detokenize [OPTIONS] [MODEL] IDS...")]
pub struct DetokenizeArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    model: Option<String>,
    /// Ids with spaces or commas between them; `-` reads them from stdin
    ids: Vec<String>,
    /// Write special tokens, too
    #[arg(long)]
    special: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl Execute for DetokenizeArgs {
    const NAME: &'static str = "detokenize";

    fn execute(self) -> Result<()> {
        let (path, words) = match &self.model {
            Some(model) if !is_ids(model) => (Some(Path::new(model)), self.ids),
            first => (None, first.iter().cloned().chain(self.ids).collect()),
        };
        let ids = match words.as_slice() {
            [] => {
                return Err(CliError::usage("IDS are missing: give them after the model, or `-` for stdin"));
            }
            [dash] if dash == "-" => input::token_ids(&input::file_text(Path::new("-"))?)?,
            words => input::token_ids(&words.join(" "))?,
        };
        let markers = if self.special { Markers::Show } else { Markers::Hide };
        let text = tokenizer(model_path::model(path, &self.fetch.options())?.as_deref())?
            .decode_with(&ids, markers)
            .map_err(lamina::Error::from)?;
        match self.json {
            true => output::json(&json!({"text": text})),
            false => output::text(&(text + "\n")),
        }
    }
}

/// A first argument without letters is no model.
fn is_ids(word: &str) -> bool {
    word == "-" || word.chars().all(|c| c.is_ascii_digit() || c == ',' || c == ' ')
}
