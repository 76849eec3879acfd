//! `lamina grammar`: checks a grammar without a model.

use super::Execute;
use crate::{
    args::grammar_file,
    error::{CliError, Result},
    exit::FAILED,
    output::{self, note},
};
use lamina::grammar::GrammarVerdict;
use std::path::PathBuf;

/// Check a grammar, and texts against it
///
/// No model is needed. What cannot be enforced is named with its place. With --matches, the exit code is 1 when a text
/// does not satisfy the grammar.
#[derive(clap::Args)]
pub struct GrammarFileArgs {
    /// A JSON schema (*.json), or a grammar in GBNF or Lark
    file: PathBuf,
    /// A text that is judged as a whole; may be repeated
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    matches: Vec<String>,
}

impl Execute for GrammarFileArgs {
    const NAME: &'static str = "grammar";

    fn execute(self) -> Result<()> {
        let grammar = grammar_file(&self.file)?;
        grammar.warnings().iter().for_each(|warning| note(warning));
        if self.matches.is_empty() {
            let fulfilled = if grammar.is_satisfiable() { "" } else { ", which no text satisfies" };
            return output::text(&format!(
                "{}: a {} grammar{fulfilled}\n",
                self.file.display(),
                grammar.kind()
            ));
        }
        let mut all = true;
        for text in &self.matches {
            let verdict = grammar.verdict(text)?;
            let told = match verdict {
                GrammarVerdict::Whole => "matches",
                GrammarVerdict::Beginning => "is a beginning",
                GrammarVerdict::Neither => "does not match",
            };
            all &= verdict == GrammarVerdict::Whole;
            output::text(&format!("{text:?} {told}\n"))?;
        }
        if all { Ok(()) } else { Err(CliError::Reported(FAILED)) }
    }
}
