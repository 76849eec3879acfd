//! How a prompt is continued.

use super::{SamplingArgs, positive};
use lamina::GenerateOptions;

/// Arguments of commands that generate text.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generation")]
pub struct GenerateArgs {
    /// Tokens at most [default: up to the end of the context]
    #[arg(short = 'n', long, value_name = "N", value_parser = positive(), aliases = ["n-predict", "max_tokens", "max-new-tokens"])]
    max_tokens: Option<usize>,
    /// Text that ends the answer, exactly as given; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after tokens that end an answer
    #[arg(long)]
    ignore_eos: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl GenerateArgs {
    /// The same for the library: one answer, without the prompt.
    pub fn options(self) -> GenerateOptions {
        GenerateOptions {
            max_tokens: self.max_tokens,
            sampling: self.sampling.0,
            stop: self.stop,
            ignore_eos: self.ignore_eos,
            ..GenerateOptions::default()
        }
    }
}
