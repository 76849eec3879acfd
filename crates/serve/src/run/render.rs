//! What a dialect makes of an answer.

use super::{
    collect::WholeAnswer,
    delta::{AnswerDelta, TokenUsage},
    frames::Frames,
    prompt::MediaTokens,
};
use crate::error::ApiError;
use serde_json::Value;

/// What is known of a request when it is queued.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// Tokens of each prompt.
    pub prompt_tokens: Vec<usize>,
    /// Of all of these, those in the places of pictures and sounds.
    pub media_tokens: MediaTokens,
    /// Answers in all.
    pub choices: usize,
    /// Name that serves it.
    pub model: String,
}

/// Writes an answer in a dialect's words, while it grows or as a whole.
pub trait Render: Send + 'static {
    /// Type of a stream.
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    /// The id that the answer tells; empty where it tells none.
    fn id(&self) -> &str {
        ""
    }

    /// The request is queued.
    fn begin(&mut self, _started: &Started, _out: &mut Frames) {}

    /// A piece of an answer has come.
    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames);

    /// All answers have ended.
    fn end(&mut self, usage: &TokenUsage, out: &mut Frames);

    /// The request has failed; no end follows.
    fn error(&mut self, error: &ApiError, out: &mut Frames);

    /// Nothing was said for a while.
    fn ping(&mut self, out: &mut Frames) {
        out.comment("ping");
    }

    /// The body of a request that wants no stream.
    fn whole(&mut self, answer: &WholeAnswer) -> Value;
}
