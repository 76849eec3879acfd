//! How long a text can be at most that fits into a context: longer ones are refused by their bytes, before tokenizing
//! them takes seconds.

use crate::error::{ApiError, Cause};
use lamina::{Markers, Model, Special, Tokenizer};

/// What tokenizers that change texts change: runs of spaces, forms of letters, words that are too long for them, what
/// they do not know.
const PROBE: &str = "  Two  words\t\n\n e\u{301}\u{e9} \u{fb01} \u{ff21} \u{1f980}\u{200b} NaN \u{4e16}\u{754c}! \
                     qwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnm\
                     qwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnmqwrtpsdfghjklzxcvbnm  ";

/// Bytes of text that a context can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRoom {
    /// Bytes of the longest token; none where a token may stand for text of any length.
    longest: Option<usize>,
    context: usize,
}

impl TextRoom {
    /// That of a model.
    pub fn of(model: &Model) -> TextRoom {
        let longest = model.tokenizer().filter(|t| keeps_texts(t)).and_then(longest);
        TextRoom { longest, context: model.info().context }
    }

    /// Room for any text.
    pub const ENDLESS: TextRoom = TextRoom { longest: None, context: 0 };

    /// Refuses a text of so many bytes where it cannot fit.
    ///
    /// # Errors
    /// When its tokens are more than the context holds, even if all of them are the longest one.
    pub fn check(&self, bytes: usize) -> Result<(), ApiError> {
        let Some(longest) = self.longest else { return Ok(()) };
        let most = longest.saturating_mul(self.context);
        if bytes <= most {
            return Ok(());
        }
        let text = format!(
            "the text has {bytes} bytes, but a context of {} tokens holds {most} at most: shorten it",
            self.context
        );
        let prompt = bytes.div_ceil(longest);
        Err(ApiError::new(Cause::TooLong { prompt, context: self.context }, text))
    }
}

/// True where all of a text is in its tokens: none was dropped or joined on the way.
fn keeps_texts(tokenizer: &Tokenizer) -> bool {
    let again =
        tokenizer.encode(PROBE, Special::NONE).and_then(|ids| tokenizer.decode_with(&ids, Markers::Show));
    again.is_ok_and(|text| text.trim_start() == PROBE.trim_start())
}

fn longest(tokenizer: &Tokenizer) -> Option<usize> {
    let size = |id: usize| tokenizer.token_bytes(id as u32).map(<[u8]>::len);
    (0..tokenizer.vocab_size()).filter_map(size).max().filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_refused_by_their_bytes_only_where_they_cannot_fit() {
        let room = TextRoom { longest: Some(16), context: 100 };
        assert!(room.check(1600).is_ok());
        let error = room.check(1601).unwrap_err();
        assert_eq!(error.cause, Cause::TooLong { prompt: 101, context: 100 });
        assert!(TextRoom::ENDLESS.check(usize::MAX).is_ok());
    }

    #[test]
    fn the_packaged_model_keeps_texts() {
        let model = Model::load(None, lamina::LoadOptions::default()).expect("the model inside the package");
        let room = TextRoom::of(&model);
        let longest = room.longest.expect("its tokenizer drops nothing");
        assert!((4..1000).contains(&longest), "{longest}");
    }
}
