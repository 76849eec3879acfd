//! How a prompt is continued.

use super::{GrammarArgs, SamplingArgs};
use lamina::{
    Compression, GenerateOptions,
    sample::{Param, SampleError, Value},
};
use std::collections::BTreeMap;

/// Arguments of commands that generate text.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generation")]
pub struct GenerateArgs {
    /// Tokens at most; 0 computes the prompt only [default: up to the end of the context]
    #[arg(short = 'n', long, value_name = "N", aliases = ["n-predict", "max_tokens", "max-new-tokens"])]
    max_tokens: Option<usize>,
    /// Text that ends the answer, exactly as given; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after tokens that end an answer
    #[arg(long)]
    ignore_eos: bool,
    /// When the context is full, keep its first N tokens and the newer half of the others, and go on
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4", visible_alias = "keep")]
    context_shift: Option<usize>,
    /// Behind the prompt, keep of each layer only the tokens that its last ones (snapkv:TOKENS, pyramidkv:TOKENS) or all
    /// of its tokens (h2o:TOKENS) look at most
    #[arg(long, value_name = "METHOD:TOKENS")]
    compress: Option<Compression>,
    #[command(flatten)]
    grammar: GrammarArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl GenerateArgs {
    /// One answer, without the prompt.
    pub fn wanted(self) -> Wanted {
        let options = GenerateOptions {
            max_tokens: self.max_tokens,
            sampling: self.sampling.params,
            stop: self.stop,
            ignore_eos: self.ignore_eos,
            context_shift: self.context_shift,
            compress: self.compress,
            grammar: self.grammar.0,
            ..GenerateOptions::default()
        };
        Wanted { options, given: self.sampling.given }
    }
}

/// What is asked of a model: options for the library, fields for a server.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// All of it.
    pub options: GenerateOptions,
    /// Sampling parameters that the user set.
    pub(super) given: BTreeMap<&'static str, Value>,
}

impl Wanted {
    /// Sets a sampling parameter by name or alias.
    ///
    /// # Errors
    /// When there is no such parameter, or the value is not one of it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SampleError> {
        let param = Param::find(name)?;
        let value = param.parse(text)?;
        self.options.sampling.set(param.name, value.clone())?;
        self.given.insert(param.name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_change_nothing() {
        let mut w = Wanted { options: GenerateOptions::default(), given: BTreeMap::new() };
        assert!(w.set("top_p", "7").is_err() && w.set("no_such", "1").is_err());
        assert!(w.given.is_empty() && w.options.sampling == GenerateOptions::default().sampling);
    }
}
