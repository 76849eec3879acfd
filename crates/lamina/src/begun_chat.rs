//! Conversations whose prompts become tokens in parts.

use crate::{
    Error, Result,
    answer::{ChatAnswer, PreparedChat},
};
use lamina_image::Picture;
use lamina_sound::Sound;
use lamina_tokenize::LongText;
use std::sync::Arc;

/// A conversation whose prompt becomes tokens in parts, for callers that have other things to do between them.
pub struct BegunChat {
    pub(crate) prompt: ChatPrompt,
    pub(crate) images: Vec<Arc<Picture>>,
    pub(crate) sounds: Vec<Arc<Sound>>,
    pub(crate) answer: ChatAnswer,
}

/// A conversation's prompt on its way to tokens.
pub(crate) enum ChatPrompt {
    Text(LongText),
    /// With pictures in it, it is made at once.
    Tokens(Vec<u32>),
}

impl ChatPrompt {
    /// Makes tokens of `bytes` more; all of them at the end.
    pub fn advance(&mut self, bytes: usize) -> Result<Option<Vec<u32>>> {
        match self {
            ChatPrompt::Text(long) => long.advance(bytes).map_err(Error::from),
            ChatPrompt::Tokens(tokens) => Ok(Some(std::mem::take(tokens))),
        }
    }

    /// All tokens.
    pub fn rest(mut self) -> Result<Vec<u32>> {
        loop {
            if let Some(tokens) = self.advance(usize::MAX)? {
                return Ok(tokens);
            }
        }
    }
}

impl BegunChat {
    /// Makes tokens of `bytes` more of the prompt, or of a little more than that; the conversation when the end is reached.
    ///
    /// # Errors
    /// When there is no memory for a long text.
    pub fn advance(&mut self, bytes: usize) -> Result<Option<PreparedChat>> {
        let Some(tokens) = self.prompt.advance(bytes)? else { return Ok(None) };
        let mut answer = self.answer.clone();
        answer.begins_after(&tokens);
        let (images, sounds) = (std::mem::take(&mut self.images), std::mem::take(&mut self.sounds));
        Ok(Some(PreparedChat { tokens, images, sounds, answer }))
    }

    /// The conversation, whose answer can begin.
    ///
    /// # Errors
    /// As for [`BegunChat::advance`].
    pub fn rest(mut self) -> Result<PreparedChat> {
        loop {
            if let Some(chat) = self.advance(usize::MAX)? {
                return Ok(chat);
            }
        }
    }
}
