//! What guesses a model's tokens ahead, by the names that users type.

use crate::error::{Error, Result};
use lamina_engine::{Drafter, Ngram, Suffix};
use std::{fmt, str::FromStr};

/// What guesses tokens ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftSource {
    /// Look-up in the prompt and the answer.
    Ngram,
    /// Whatever costs nothing: look-up in the text, and in earlier answers of this process.
    Auto,
}

impl FromStr for DraftSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<DraftSource> {
        match text {
            "ngram" => Ok(DraftSource::Ngram),
            "auto" => Ok(DraftSource::Auto),
            _ => Err(Error::InvalidRequest(format!("draft is {text:?}, but must be ngram or auto"))),
        }
    }
}

impl fmt::Display for DraftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DraftSource::Ngram => "ngram",
            DraftSource::Auto => "auto",
        })
    }
}

impl DraftSource {
    /// Its drafters.
    pub(crate) fn drafters(&self) -> Vec<Box<dyn Drafter>> {
        match self {
            DraftSource::Ngram => vec![Box::new(Ngram::default())],
            DraftSource::Auto => vec![Box::new(Ngram::default()), Box::<Suffix>::default()],
        }
    }
}

/// Names of drafters, as reports write them.
pub(crate) fn names(drafters: &[Box<dyn Drafter>]) -> String {
    drafters.iter().map(|d| d.name()).collect::<Vec<_>>().join(" + ")
}
