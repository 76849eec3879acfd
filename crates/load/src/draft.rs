//! What guesses a model's tokens ahead, by the names that users type.

use crate::{
    backend_model::BackendModel,
    error::{Error, Result},
    heads::FoundHead,
};
use lamina_arch::{Family, ModelSpec, is_head_folder};
use lamina_engine::{BridgedModel, DraftModel, Drafter, Lookahead, Ngram, Suffix};
use lamina_store::Checkpoint;
use lamina_tokenize::Tokenizer;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What guesses tokens ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftSource {
    /// Look-up in the prompt and the answer.
    Ngram,
    /// What the model said behind wrong guesses, and look-up in the prompt and the answer, whose guesses begin it.
    Lookahead,
    /// Look-up in the text, and in earlier answers of this process; and the checkpoint's own layers that guess further
    /// tokens, where it has any.
    Auto,
    /// The checkpoint's own layers that guess further tokens, and look-up.
    Mtp,
    /// A smaller model with the same tokens, or a head that was trained for this one (EAGLE, Medusa), and whatever costs
    /// nothing.
    Model(PathBuf),
}

/// Which heads go with a model.
#[derive(Clone, Copy, Default)]
pub(crate) enum HeadChoice<'a> {
    /// None.
    #[default]
    None,
    /// Its own, where its checkpoint has them.
    IfThere,
    /// Its own.
    Own,
    /// Those of a folder.
    Folder(&'a Checkpoint),
}

impl<'a> HeadChoice<'a> {
    /// The head that was chosen for the model in `ck`.
    ///
    /// # Errors
    /// When it was asked for and is not there.
    pub fn find(
        self,
        ck: &'a Checkpoint,
        family: &'static Family,
        spec: &ModelSpec,
    ) -> Result<Option<FoundHead<'a>>> {
        match self {
            HeadChoice::None => Ok(None),
            HeadChoice::IfThere => Ok(FoundHead::own(ck, family, spec)),
            HeadChoice::Own => FoundHead::own(ck, family, spec).map(Some).ok_or_else(|| {
                Error::InvalidRequest(
                    "draft is \"mtp\", but the checkpoint has no layers that guess further tokens (MTP); use \
                     draft=\"auto\", which needs none"
                        .into(),
                )
            }),
            HeadChoice::Folder(head) => FoundHead::folder(head, spec).map(Some),
        }
    }
}

impl From<&str> for DraftSource {
    fn from(text: &str) -> DraftSource {
        match text {
            "ngram" => DraftSource::Ngram,
            "lookahead" => DraftSource::Lookahead,
            "auto" => DraftSource::Auto,
            "mtp" => DraftSource::Mtp,
            path => DraftSource::Model(path.into()),
        }
    }
}

impl fmt::Display for DraftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DraftSource::Ngram => f.write_str("ngram"),
            DraftSource::Lookahead => f.write_str("lookahead"),
            DraftSource::Auto => f.write_str("auto"),
            DraftSource::Mtp => f.write_str("mtp"),
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
            DraftSource::Ngram | DraftSource::Lookahead | DraftSource::Auto | DraftSource::Mtp => Ok(None),
            DraftSource::Model(path) if path.exists() => Ok(Some(path)),
            DraftSource::Model(path) => Err(Error::InvalidRequest(format!(
                "draft is {:?}, but must be ngram, lookahead, auto, mtp, or the path of a model or head that is there",
                path.display().to_string()
            ))),
        }
    }

    /// Which heads it asks for; `folder` is what its path holds.
    pub(crate) fn heads<'a>(&self, folder: Option<&'a Checkpoint>) -> HeadChoice<'a> {
        match self {
            DraftSource::Auto => HeadChoice::IfThere,
            DraftSource::Mtp => HeadChoice::Own,
            DraftSource::Ngram | DraftSource::Lookahead | DraftSource::Model(_) => {
                folder.filter(|ck| is_head_folder(ck)).map_or(HeadChoice::None, HeadChoice::Folder)
            }
        }
    }

    /// Its drafters; `beside` was loaded for it.
    pub(crate) fn drafters(&self, beside: Vec<Box<dyn Drafter>>) -> Vec<Box<dyn Drafter>> {
        let ngram: Box<dyn Drafter> = Box::new(Ngram::default());
        let mut drafters = vec![ngram];
        match self {
            DraftSource::Ngram => {}
            DraftSource::Lookahead => drafters.push(Box::<Lookahead>::default()),
            DraftSource::Auto | DraftSource::Mtp | DraftSource::Model(_) => {
                drafters.push(Box::<Suffix>::default());
            }
        }
        drafters.extend(beside);
        drafters
    }
}

/// Names of drafters, as reports write them.
pub(crate) fn names(drafters: &[Box<dyn Drafter>]) -> Option<String> {
    let names: Vec<_> = drafters.iter().map(|d| d.name()).collect();
    (!names.is_empty()).then(|| names.join(" + "))
}

/// What guesses by a draft model: itself where its tokens are the model's, else by way of the text. Tokens that only one of
/// them has are padding.
///
/// # Errors
/// When one of them has no tokenizer to compare.
pub(crate) fn draft_model(model: &BackendModel, draft: BackendModel) -> Result<Box<dyn Drafter>> {
    let (own, other) = (model.info.vocab, draft.info.vocab);
    let guesses = DraftModel::new(draft.step, draft.context);
    match (&model.tokenizer, draft.tokenizer) {
        (None, None) if own == other => Ok(Box::new(guesses)),
        (Some(own), Some(other)) if same_tokens(own, &other) => Ok(Box::new(guesses)),
        (Some(own), Some(other)) if own.is_available() && other.is_available() => {
            Ok(Box::new(BridgedModel::new(guesses, own.clone(), other)))
        }
        _ => Err(Error::InvalidRequest(format!(
            "the draft model cannot be compared with the model: one of them has no tokenizer, and they have {other} \
             and {own} tokens; use a draft with a tokenizer, or draft=\"auto\", which needs none"
        ))),
    }
}

fn same_tokens(own: &Tokenizer, other: &Tokenizer) -> bool {
    let same = |id: u32| own.token_bytes(id) == other.token_bytes(id) && own.kind(id) == other.kind(id);
    (0..own.vocab_size().min(other.vocab_size()) as u32).all(same)
}
