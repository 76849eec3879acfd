//! Encoding by the library `tokenizers`.

use crate::{error::TextError, special::Strip};
use std::sync::OnceLock;
use tokenizers::{AddedToken, Tokenizer as Library};

/// The library's tokenizer, twice: whether special tokens in a text are parsed is a setting of it, not of a call.
pub(crate) struct HfEngine {
    plain: Library,
    parsing: OnceLock<Library>,
}

impl HfEngine {
    /// The tokenizer of a `tokenizer.json`.
    pub fn from_json(json: &[u8]) -> Result<HfEngine, TextError> {
        let mut plain = Library::from_bytes(json).map_err(refused)?;
        // A file saved after training may still truncate and pad; a model's prompt must come whole.
        plain.with_truncation(None).map_err(refused)?;
        plain.with_padding(None);
        plain.set_encode_special_tokens(true);
        Ok(HfEngine { plain, parsing: OnceLock::new() })
    }

    /// The library's own tokenizer.
    pub fn library(&self) -> &Library {
        &self.plain
    }

    /// Ids of `text` with those that the post-processor adds.
    pub fn framed(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(self.plain.encode_fast(text, true).map_err(refused)?.get_ids().to_vec())
    }

    /// Appends the ids of `text`, without those that the post-processor adds.
    pub fn encode(&self, text: &str, parse: bool, out: &mut Vec<u32>) -> Result<(), TextError> {
        let library = if parse { self.parsing() } else { &self.plain };
        let encoding = library.encode_fast(text, false).map_err(refused)?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Adds a token that the folder's configuration names and the file lacks. It gets the next free id, which is
    /// returned: the library takes no wishes.
    pub fn add(&mut self, text: &str, special: bool, strip: Strip) -> Result<Option<u32>, TextError> {
        let token =
            AddedToken::from(text, special).normalized(!special).lstrip(strip.left).rstrip(strip.right);
        self.plain.add_tokens([token]).map_err(refused)?;
        self.parsing = OnceLock::new();
        Ok(self.plain.token_to_id(text))
    }

    fn parsing(&self) -> &Library {
        self.parsing.get_or_init(|| {
            let mut library = self.plain.clone();
            library.set_encode_special_tokens(false);
            library
        })
    }
}

fn refused(error: tokenizers::Error) -> TextError {
    TextError::HuggingFace(error.to_string())
}
