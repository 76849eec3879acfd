//! `lamina perplexity`: how well a model predicts a text, and how far it is from another one.

use super::Execute;
use crate::{
    args::{LoraArgs, PlotArgs, ScoreArgs, load, positive},
    error::Result,
    input, output,
    progress::Bar,
    table::pairs,
};
use lamina::{LoadOptions, Prompt};
use lamina_tools::{
    Divergence, Perplexity, PerplexityOptions, divergence, divergence_from, token_losses, write_logits,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Measure how well a model predicts a text
///
/// The text is cut into windows. Each window starts with the model's beginning token where it has one; each token is
/// scored once, in the first window that has it. With --base the model's probabilities are compared with those of another
/// model, in the figures that quantizers publish: KL divergence, change of the probability of the text's tokens, same top.
#[derive(clap::Args)]
pub struct PerplexityArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    model: Option<PathBuf>,
    /// The text; `-` reads stdin
    #[arg(short, long, required_unless_present = "logits")]
    file: Option<PathBuf>,
    /// Model to compare with, such as the one that was quantized; both are in memory at once
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,
    /// The base's 256 likeliest tokens of each place: with --base it is written first and the base leaves memory before the
    /// model is loaded, else it is read
    #[arg(long, value_name = "FILE")]
    logits: Option<PathBuf>,
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
    plot: PlotArgs,
    #[command(flatten)]
    load: ScoreArgs,
    #[command(flatten)]
    lora: LoraArgs,
}

impl Execute for PerplexityArgs {
    const NAME: &'static str = "perplexity";

    fn execute(self) -> Result<()> {
        // First, so that a mistyped name does not wait for a large model.
        let text = self.file.as_deref().map(input::file_text).transpose()?.map(Prompt::Text);
        match (&text, self.base.is_some() || self.logits.is_some()) {
            (Some(text), false) => self.perplexity(text),
            _ => self.divergence(text.as_ref()),
        }
    }
}

impl PerplexityArgs {
    fn perplexity(&self, text: &Prompt) -> Result<()> {
        let model = self.lora.load(self.model.as_deref(), self.load_options())?;
        let losses = windowed(|progress| token_losses(&model, text, self.windows(), progress))?;
        let p = Perplexity::of(&losses);
        self.plot.write(|| crate::plots::losses(model.info(), &losses, &p))?;
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

    fn divergence(&self, text: Option<&Prompt>) -> Result<()> {
        let figures = self.compared(text)?.figures();
        match self.json {
            true => output::json(&figures.json()),
            false => output::text(&pairs(figures.rows())),
        }
    }

    fn compared(&self, text: Option<&Prompt>) -> Result<Divergence> {
        let base = self.base.as_deref().map(|path| load(Some(path), &self.load_options()));
        match (base.transpose()?, &self.logits, text) {
            (Some(base), None, Some(text)) => {
                let model = self.lora.load(self.model.as_deref(), self.load_options())?;
                windowed(|progress| divergence(&base, &model, text, self.windows(), progress))
            }
            (Some(base), Some(file), Some(text)) => {
                windowed(|progress| write_logits(&base, text, self.windows(), file, progress))?;
                base.close();
                drop(base);
                self.beside_file(file, Some(text))
            }
            (None, Some(file), text) => self.beside_file(file, text),
            _ => Err(crate::error::CliError::usage("--base needs a text: give it by --file")),
        }
    }

    fn beside_file(&self, file: &Path, text: Option<&Prompt>) -> Result<Divergence> {
        let model = self.lora.load(self.model.as_deref(), self.load_options())?;
        windowed(|progress| divergence_from(file, &model, text, progress))
    }

    fn load_options(&self) -> LoadOptions {
        LoadOptions { context: Some(self.context), ..self.load.options() }
    }

    fn windows(&self) -> PerplexityOptions {
        let stride = self.stride.unwrap_or(self.context);
        PerplexityOptions { context: self.context, stride, skip: self.skip }
    }
}

/// Work over windows, with a bar.
fn windowed<T>(work: impl FnOnce(&mut dyn FnMut(usize, usize) -> bool) -> lamina::Result<T>) -> Result<T> {
    let bar = Bar::steps("windows");
    Ok(work(&mut |done, all| {
        bar.at(done as u64, all as u64);
        true
    })?)
}
