//! What a beam search is asked for, and what it finds.

use crate::{
    error::{EngineError, Result},
    events::output::{FinishReason, LengthBy},
    request::constraint::Constraint,
};
use lamina_plan::{PAGE_LEN, Reach};
use lamina_tokenize::Tokenizer;
use std::{fmt, str::FromStr, sync::Arc};

/// Beams at most: each has rows and pages of its own.
const MOST_BEAMS: usize = 64;

/// A search for the likeliest answers to a prompt.
#[derive(Clone)]
pub struct BeamSearch {
    /// Beginnings that go on side by side.
    pub width: usize,
    /// Tokens of an answer at most, the one that ends it too; none: as many as context and cache hold.
    pub max_tokens: Option<usize>,
    /// Answers are compared by the sum of their logprobs by this power of their length: above 0 it favors long ones.
    pub length_penalty: f32,
    /// When the search ends.
    pub early_stopping: EarlyStopping,
    /// Tokens that end an answer.
    pub end_tokens: Arc<[u32]>,
    /// Tokens that are never chosen, as in [`Generation::never`](crate::Generation::never).
    pub never: Arc<[u32]>,
    /// Strings that end an answer, and are no part of it.
    pub stop: Vec<String>,
    /// What each answer must satisfy.
    pub constraint: Option<Constraint>,
    /// Makes text of tokens.
    pub tokenizer: Option<Tokenizer>,
}

/// When a search ends that has as many answers as beams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// When the likeliest beam, were it to end now, would be no better than the worst of them.
    #[default]
    Heuristic,
    /// At once.
    Full,
    /// When no beam can become better than the worst of them, however long it gets.
    Never,
}

impl FromStr for EarlyStopping {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<EarlyStopping> {
        match text {
            "false" => Ok(EarlyStopping::Heuristic),
            "true" => Ok(EarlyStopping::Full),
            "never" => Ok(EarlyStopping::Never),
            _ => Err(wrong("early_stopping", text, "true, false or never")),
        }
    }
}

/// An answer that a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// Its tokens, without the one that ended it.
    pub tokens: Vec<u32>,
    /// Its text; empty without a tokenizer.
    pub text: String,
    /// What answers are compared by.
    pub score: f64,
    /// Sum of the logprobs of its tokens, of the one that ended it too.
    pub cumulative_logprob: f64,
    /// Why it ended.
    pub reason: FinishReason,
}

/// Takes what a search has found, best first, before the event that ends the first answer.
pub type BeamSink = Box<dyn FnMut(&[Beam]) + Send>;

/// A search, and who takes what it finds. The events of its `n` best answers come when it has ended, as if they had been
/// chosen token by token.
pub struct BeamTask {
    pub(crate) search: BeamSearch,
    /// Answers whose events are sent.
    pub(crate) n: usize,
    /// What an answer ends by that has as many tokens as may be.
    pub(crate) by: LengthBy,
    pub(crate) sink: BeamSink,
}

impl BeamTask {
    /// A search for `n` answers, which `sink` takes with all others that were found.
    pub fn new(search: BeamSearch, n: usize, sink: BeamSink) -> BeamTask {
        BeamTask { search, n, by: LengthBy::MaxTokens, sink }
    }

    /// Limits its answers to what a context of `context` tokens and the machine hold behind a prompt of `prompt` tokens.
    ///
    /// # Errors
    /// When it can never run.
    pub(crate) fn fit(&mut self, prompt: usize, context: usize, room: &BeamRoom) -> Result<()> {
        let search = &mut self.search;
        search.check(room)?;
        if !(1..=search.width).contains(&self.n) {
            return Err(wrong("n", self.n, "from 1 to the width of the search"));
        }
        // The last token of all is never computed, so it may stand one position behind the context.
        let (free, held) = ((context + 1).saturating_sub(prompt), room.tokens(search.width, prompt) + 1);
        let most = search.max_tokens.unwrap_or(held).min(free);
        if most > held || held < 2 {
            let positions = |tokens: usize| prompt + search.width * tokens;
            return Err(EngineError::CacheTooSmall {
                need: positions(most.max(2)),
                have: positions(held - 1),
            });
        }
        self.by = if search.max_tokens == Some(most) { LengthBy::MaxTokens } else { LengthBy::Context };
        search.max_tokens = Some(most);
        Ok(())
    }
}

/// What a machine has for the beams of one search.
#[derive(Clone, Debug)]
pub(crate) struct BeamRoom {
    /// Rows of a step that have logits.
    pub rows: usize,
    /// Recurrent states; none where the model has no such layers.
    pub states: Option<usize>,
    /// Pages of each layer group, and how far its rows see.
    pub groups: Vec<(Reach, usize)>,
}

impl BeamRoom {
    /// Tokens of each of `width` beams behind a prompt that the cache holds, while no other sequence runs.
    fn tokens(&self, width: usize, prompt: usize) -> usize {
        let most = |&(reach, pages): &(Reach, usize)| {
            if reach != Reach::All && pages >= width.saturating_mul(reach.pages(usize::MAX, 1)) {
                return usize::MAX / 2;
            }
            // Whole pages of the prompt are shared; all others each beam has for itself.
            let shared = prompt / PAGE_LEN;
            let own = pages.saturating_sub(shared) / width;
            ((shared + own) * PAGE_LEN).saturating_sub(prompt)
        };
        self.groups.iter().map(most).min().unwrap_or(usize::MAX / 2)
    }
}

impl BeamSearch {
    fn check(&self, room: &BeamRoom) -> Result<()> {
        if !(1..=MOST_BEAMS).contains(&self.width) {
            return Err(wrong("the width of a beam search", self.width, "from 1 to 64"));
        }
        if self.width > room.rows.min(room.states.unwrap_or(usize::MAX)) {
            let want = "at most the sequences that the model was loaded to run at once";
            return Err(wrong("the width of a beam search", self.width, want));
        }
        if self.max_tokens == Some(0) {
            return Err(wrong("max_tokens", 0, "at least 1 for a beam search"));
        }
        match self.length_penalty.is_finite() {
            true => Ok(()),
            false => Err(wrong("length_penalty", self.length_penalty, "a finite number")),
        }
    }
}

fn wrong(name: &'static str, value: impl fmt::Display, want: &'static str) -> EngineError {
    EngineError::Parameter { name, value: value.to_string(), want }
}
