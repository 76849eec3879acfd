//! Encoding by the library `tokenizers`.

use crate::{encode::stage::CutStage, error::TokenizeError, special::Strip};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, TokenizerImpl,
    pre_tokenizers::{PreTokenizerWrapper, metaspace::PrependScheme},
};

/// The library's tokenizer over our pre-tokenizer.
pub(crate) type Library =
    TokenizerImpl<ModelWrapper, NormalizerWrapper, CutStage, PostProcessorWrapper, DecoderWrapper>;

/// The library's tokenizer, twice: whether special tokens in a text are parsed is a setting of it, not of a call.
pub(crate) struct HfEngine {
    plain: Library,
    parsing: OnceLock<Library>,
    /// Without the space that only the beginning of a text gets.
    inner: OnceLock<Library>,
}

impl HfEngine {
    /// The tokenizer of a `tokenizer.json`.
    pub fn from_json(json: &[u8]) -> Result<HfEngine, TokenizeError> {
        let mut plain = caught("building it", || Library::from_bytes(json))?;
        // A file saved after training may still truncate and pad; a model's prompt must come whole.
        caught("truncation", || plain.with_truncation(None).map(|_| ()))?;
        plain.with_padding(None);
        plain.set_encode_special_tokens(true);
        Ok(HfEngine { plain, parsing: OnceLock::new(), inner: OnceLock::new() })
    }

    /// The library's own tokenizer.
    pub fn library(&self) -> &Library {
        &self.plain
    }

    /// Ids of `text` with those that the post-processor adds.
    pub fn framed(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        Ok(caught("the post_processor", || self.plain.encode_fast(text, true))?.get_ids().to_vec())
    }

    /// Ids of two texts with those that the post-processor adds.
    pub fn framed_pair(&self, first: &str, second: &str) -> Result<Vec<u32>, TokenizeError> {
        Ok(caught("the post_processor", || self.plain.encode_fast((first, second), true))?.get_ids().to_vec())
    }

    /// Appends the ids of `text`, without those that the post-processor adds.
    pub fn encode(&self, text: &str, parse: bool, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let library = if parse { self.parsing() } else { &self.plain };
        let encoding = caught("tokenizing", || library.encode_fast(text, false))?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Adds a token that the folder's configuration names and the file lacks. It gets the next free id, which is
    /// returned: the library takes no wishes.
    pub fn add(&mut self, text: &str, special: bool, strip: Strip) -> Result<Option<u32>, TokenizeError> {
        let token =
            AddedToken::from(text, special).normalized(!special).lstrip(strip.left).rstrip(strip.right);
        caught("adding a token", || self.plain.add_tokens([token]))?;
        (self.parsing, self.inner) = (OnceLock::new(), OnceLock::new());
        Ok(self.plain.token_to_id(text))
    }

    /// Appends the ids of a stretch between special tokens, in which none are read.
    pub fn encode_part(&self, text: &str, first: bool, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let library = if first { &self.plain } else { self.inner.get_or_init(|| without_first(&self.plain)) };
        let encoding = caught("tokenizing", || library.encode_fast(text, false))?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    fn parsing(&self) -> &Library {
        self.parsing.get_or_init(|| {
            let mut library = self.plain.clone();
            library.set_encode_special_tokens(false);
            library
        })
    }
}

/// Calls the library; where it panics, the data is to blame and `what` names the call.
fn caught<T>(what: &str, call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, TokenizeError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(TokenizeError::HuggingFace(error.to_string())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why");
            Err(TokenizeError::HuggingFace(format!("{what} failed inside the tokenizers library: {said}")))
        }
    }
}

/// A Metaspace that puts a space before the first word of a text puts none here.
fn without_first(library: &Library) -> Library {
    let mut library = library.clone();
    let Some(mut stage) = library.get_pre_tokenizer().cloned() else { return library };
    stage.each(&mut |stage| {
        if let PreTokenizerWrapper::Metaspace(metaspace) = stage
            && metaspace.prepend_scheme == PrependScheme::First
        {
            metaspace.prepend_scheme = PrependScheme::Never;
        }
    });
    library.with_pre_tokenizer(Some(stage));
    library
}
