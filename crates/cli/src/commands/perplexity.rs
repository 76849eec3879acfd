//! `lamina perplexity`: how well a model predicts a text.

use super::Execute;
use crate::{
    args::{LoraArgs, ScoreArgs, positive},
    error::Result,
    input, output,
    progress::Bar,
    table::pairs,
};
use lamina::{LoadOptions, Prompt};
use lamina_tools::{PerplexityOptions, perplexity};
use serde_json::json;
use std::path::PathBuf;

/// Measure how well a model predicts a text
///
/// The text is cut into windows. Each window starts with the model's beginning token where it has one; each token is
/// scored once, in the first window that has it.
#[derive(clap::Args)]
pub struct PerplexityArgs {
    /// GGUF file or Hugging Face folder
    model: Option<PathBuf>,
    /// The text; `-` reads stdin
    #[arg(short, long)]
    file: PathBuf,
    /// Tokens of a window
    #[arg(short, long, value_name = "TOKENS", default_value = "512", value_parser = positive())]
    context: usize,
    /// Tokens from one window to the next [default: as many as --context]
    #[arg(long, value_name = "TOKENS", value_parser = positive())]
    stride: Option<usize>,
    /// Tokens at the beginning of each window that are not scored; half a window compares with llama.cpp
    #[arg(long, value_name = "TOKENS", default_value = "0")]
    skip: usize,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: ScoreArgs,
    #[command(flatten)]
    lora: LoraArgs,
}

impl Execute for PerplexityArgs {
    const NAME: &'static str = "perplexity";

    fn execute(self) -> Result<()> {
        // First, so that a mistyped name does not wait for a large model.
        let text = input::file_text(&self.file)?;
        let options = LoadOptions { context: Some(self.context), ..self.load.options() };
        let model = self.lora.load(self.model.as_deref(), options)?;
        let stride = self.stride.unwrap_or(self.context);
        let options = PerplexityOptions { context: self.context, stride, skip: self.skip };
        let bar = Bar::steps("windows");
        let mut progress = |done: usize, all: usize| {
            bar.at(done as u64, all as u64);
            true
        };
        let p = perplexity(&model, &Prompt::Text(text), options, &mut progress)?;
        drop(bar);
        if self.json {
            let report = json!({"ppl": p.ppl, "nll": p.nll, "tokens": p.tokens, "stderr": p.stderr});
            return output::json(&report);
        }
        output::text(&pairs([
            ("perplexity", format!("{:.4} +- {:.4}", p.ppl, p.stderr)),
            ("nats per token", format!("{:.5}", p.nll)),
            ("tokens scored", p.tokens.to_string()),
        ]))
    }
}
