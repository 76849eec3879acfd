//! An answer that still grows.

use super::{
    delta::{ChosenToken, DeltaPart},
    split::{AnswerSplitter, Split},
};

/// An answer that still grows.
pub(super) struct OpenChoice {
    splitter: AnswerSplitter,
    /// Tokens whose text is held back.
    pub held: Vec<ChosenToken>,
    /// Tokens of reasoning.
    pub reasoning: usize,
}

impl OpenChoice {
    /// Of a job that splits so.
    pub fn new(split: &Split, seed: Option<u64>) -> OpenChoice {
        OpenChoice { splitter: AnswerSplitter::new(split, seed), held: vec![], reasoning: 0 }
    }

    /// The parts that became certain with `text`, which came with `token`.
    pub fn push(&mut self, text: String, token: Option<u32>) -> Vec<(DeltaPart, Vec<ChosenToken>)> {
        let parts = self.splitter.push(text, token);
        self.with_tokens(parts)
    }

    /// The parts that were held back.
    pub fn finish(&mut self) -> Vec<(DeltaPart, Vec<ChosenToken>)> {
        let parts = self.splitter.finish();
        self.with_tokens(parts)
    }

    /// Parts with the tokens that are held, which go with the first of them. A part without text is none: it would open
    /// a message that says nothing.
    fn with_tokens(&mut self, parts: Vec<DeltaPart>) -> Vec<(DeltaPart, Vec<ChosenToken>)> {
        let empty =
            |part: &DeltaPart| matches!(part, DeltaPart::Text(t) | DeltaPart::Reasoning(t) if t.is_empty());
        let parts = parts.into_iter().filter(|part| !empty(part)).map(|part| {
            let tokens = std::mem::take(&mut self.held);
            if matches!(part, DeltaPart::Reasoning(_)) {
                self.reasoning += tokens.len();
            }
            (part, tokens)
        });
        parts.collect()
    }

    /// Tool calls so far.
    pub fn calls(&self) -> usize {
        self.splitter.calls()
    }

    /// True once nothing of what follows is part of it.
    pub fn over(&self) -> bool {
        self.splitter.over()
    }
}
