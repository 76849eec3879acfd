//! What guesses tokens.

use crate::{draft::Proposal, error::Result};
use std::fmt;

/// A sequence whose next tokens are wanted.
#[derive(Clone, Copy, Debug)]
pub struct DraftAsk<'a> {
    /// Its number; the same one until [`Drafter::forget`].
    pub id: u64,
    /// Prompt and answer so far. They only grow.
    pub tokens: &'a [u32],
    /// Tokens of the prompt.
    pub prompt_len: usize,
    /// Its text may help others and be helped by theirs: it has no cache salt.
    pub shared: bool,
    /// Most guesses of a chain that are of use; at least 1.
    pub most: usize,
    /// Most chains that are of use; at least 1.
    pub branches: usize,
    /// What is to be done to rows before a guess is chosen from them; none where the tokens are not an answer's own.
    pub edits: Option<&'a dyn DraftEdits>,
}

impl<'a> DraftAsk<'a> {
    /// For one chain of at most `most` guesses behind tokens that no request edits.
    pub fn new(id: u64, tokens: &'a [u32], most: usize) -> DraftAsk<'a> {
        DraftAsk { id, tokens, prompt_len: tokens.len(), shared: true, most, branches: 1, edits: None }
    }
}

/// The request of an answer: what it does to a row of logits before it draws.
pub trait DraftEdits {
    /// What chooses guesses as the request would; none where it takes rows as they are.
    fn chooser(&self) -> Option<Box<dyn GuessChooser>>;
}

impl fmt::Debug for dyn DraftEdits + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("those of an answer")
    }
}

/// Chooses guesses after the mask, bias and penalties of a request, with those before taken as said. It goes its own way: the
/// request sees nothing of it.
pub trait GuessChooser {
    /// The likeliest tokens of a drafter's row, which is worked on in place, up to `most` of them, and how likely they are;
    /// none where nothing may come, or the answer ends. The first one is taken as said.
    fn choose(&mut self, logits: &mut Vec<f32>, most: usize) -> Option<Vec<(u32, f32)>>;
}

/// Guesses the next tokens of sequences. What it guesses changes how fast answers come, never what they are.
pub trait Drafter: Send {
    /// Its name in requests and reports.
    fn name(&self) -> &'static str;

    /// How often a guess with this sign is right, before any was tried.
    fn prior(&self, sign: u8) -> f32;

    /// Chains for each ask, in their order; none where nothing comes to mind.
    ///
    /// # Errors
    /// When it can guess no more. It is not asked again.
    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>>;

    /// True where guessing takes machine time, so that it is asked only for as many guesses as pay.
    fn computes(&self) -> bool {
        false
    }

    /// Marks of the model's plan whose rows it wants of the sequences that it may be asked for.
    fn taps(&self) -> &[usize] {
        &[]
    }

    /// The model has computed `rows` rows of a sequence, of kept tokens from place `start` on: of each of
    /// [`Drafter::taps`] the hidden rows, one after the other. Tokens may come again, and some are left out.
    fn observe(&mut self, _id: u64, _start: usize, _pieces: &[&[f32]], _rows: usize) {}

    /// True where it wants to hear what rows of guesses say, whoever made them.
    fn listens(&self) -> bool {
        false
    }

    /// The rows of a sequence's last token and of the first chain's `drafts` behind it were computed: `said` has the likeliest token
    /// behind each. The first `accepted` drafts were right.
    fn said(&mut self, _ask: &DraftAsk<'_>, _drafts: &[u32], _said: &[u32], _accepted: usize) {}

    /// Sequence `to` begins with the tokens that sequence `from` has now.
    fn fork(&mut self, _from: u64, _to: u64) {}

    /// A sequence has ended, or will not be asked about for long: what is kept of it can go. `ask` has its last tokens.
    fn forget(&mut self, ask: &DraftAsk<'_>);
}
