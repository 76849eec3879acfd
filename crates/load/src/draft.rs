//! What guesses a model's tokens ahead, by the names that users type.

use crate::{
    built::Built,
    error::{Error, Result},
};
use lamina_engine::{DraftModel, Drafter, Ngram, Suffix};
use lamina_text::Tokenizer;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What guesses tokens ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftSource {
    /// Look-up in the prompt and the answer.
    Ngram,
    /// Whatever costs nothing: look-up in the text, and in earlier answers of this process.
    Auto,
    /// A smaller model with the same tokens, and whatever costs nothing.
    Model(PathBuf),
}

impl From<&str> for DraftSource {
    fn from(text: &str) -> DraftSource {
        match text {
            "ngram" => DraftSource::Ngram,
            "auto" => DraftSource::Auto,
            path => DraftSource::Model(path.into()),
        }
    }
}

impl fmt::Display for DraftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DraftSource::Ngram => f.write_str("ngram"),
            DraftSource::Auto => f.write_str("auto"),
            DraftSource::Model(path) => path.display().fmt(f),
        }
    }
}

impl DraftSource {
    /// The path of a draft model.
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub(crate) fn model(&self) -> Result<Option<&Path>> {
        match self {
            DraftSource::Ngram | DraftSource::Auto => Ok(None),
            DraftSource::Model(path) if path.exists() => Ok(Some(path)),
            DraftSource::Model(path) => Err(Error::InvalidRequest(format!(
                "draft is {:?}, but must be ngram, auto, or the path of a model that is there",
                path.display().to_string()
            ))),
        }
    }

    /// Its drafters; `model` is the draft model that was loaded for it.
    pub(crate) fn drafters(&self, model: Option<Built>) -> Vec<Box<dyn Drafter>> {
        let ngram: Box<dyn Drafter> = Box::new(Ngram::default());
        let mut drafters = vec![ngram];
        if *self != DraftSource::Ngram {
            drafters.push(Box::<Suffix>::default());
        }
        if let Some(built) = model {
            drafters.push(Box::new(DraftModel::new(built.step, built.context)));
        }
        drafters
    }
}

/// Names of drafters, as reports write them.
pub(crate) fn names(drafters: &[Box<dyn Drafter>]) -> Option<String> {
    let names: Vec<_> = drafters.iter().map(|d| d.name()).collect();
    (!names.is_empty()).then(|| names.join(" + "))
}

/// Refuses a draft model whose tokens are others than the model's. Tokens that only one of them has are padding.
///
/// # Errors
/// When a token differs; it is named.
pub(crate) fn check_tokens(model: &Built, draft: &Built) -> Result<()> {
    let (Some(own), Some(other)) = (&model.tokenizer, &draft.tokenizer) else {
        let (own, other) = (model.info.vocab, draft.info.vocab);
        return if model.tokenizer.is_none() && draft.tokenizer.is_none() && own == other {
            Ok(())
        } else {
            Err(Error::InvalidRequest(format!(
                "the draft model cannot be compared with the model: one of them has no tokenizer, and they have \
                 {other} and {own} tokens"
            )))
        };
    };
    let same = |id: &u32| own.token_bytes(*id) == other.token_bytes(*id) && own.kind(*id) == other.kind(*id);
    let ids = 0..own.vocab_size().min(other.vocab_size()) as u32;
    match ids.into_iter().find(|id| !same(id)) {
        None => Ok(()),
        Some(id) => Err(Error::Unsupported(format!(
            "the draft model has other tokens: {id} is {} there and {} in the model; use a draft of the model's own \
             family, or draft=\"auto\", which needs none",
            shown(other, id),
            shown(own, id)
        ))),
    }
}

fn shown(tokenizer: &Tokenizer, id: u32) -> String {
    format!("{:?}", String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()))
}
