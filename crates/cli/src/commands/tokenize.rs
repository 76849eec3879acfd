//! `lamina tokenize`: text to tokens.

use super::Execute;
use crate::{args::FetchArgs, error::Result, input, model_path, output, table::table};
use lamina::{Special, tokenizer};
use serde_json::json;
use std::ffi::OsString;

/// Show the tokens of a text
///
/// Only the tokenizer is loaded, so a file with a vocabulary alone will do.
#[derive(clap::Args)]
#[command(override_usage = "lamina tokenize [OPTIONS] [MODEL] TEXT")]
pub struct TokenizeArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    model: Option<OsString>,
    /// The text; `-` or nothing reads it from stdin
    text: Option<OsString>,
    /// Read special tokens in the text as such, and add those that the model begins and ends a text with
    #[arg(long)]
    special: bool,
    /// Write only the ids, on one line
    #[arg(long)]
    ids: bool,
    /// Write one JSON object
    #[arg(long, conflicts_with = "ids")]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl Execute for TokenizeArgs {
    const NAME: &'static str = "tokenize";

    fn execute(self) -> Result<()> {
        let (path, text) = input::model_and_text(self.model, self.text, "TEXT")?;
        let tokenizer = tokenizer(model_path::model(path.as_deref(), &self.fetch.options())?.as_deref())?;
        let special = if self.special { Special::ADD_AND_PARSE } else { Special::NONE };
        let ids = tokenizer.encode(&text, special).map_err(lamina::Error::from)?;
        let piece =
            |&id: &u32| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned();
        if self.json {
            let pieces: Vec<_> = ids.iter().map(piece).collect();
            return output::json(&json!({"tokens": ids, "pieces": pieces, "count": ids.len()}));
        }
        if self.ids {
            let words: Vec<_> = ids.iter().map(u32::to_string).collect();
            return output::text(&(words.join(" ") + "\n"));
        }
        let rows = ids.iter().map(|id| vec![id.to_string(), format!("{:?}", piece(id))]);
        output::text(&table(&["id", "piece"], &[0], rows))
    }
}
