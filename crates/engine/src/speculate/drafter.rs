//! What guesses tokens.

use crate::{answer::Answer, drafting::Proposal, error::Result};
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
    /// What is to be done to rows before a guess is chosen from them.
    pub(crate) edits: DraftEdits<'a>,
}

impl<'a> DraftAsk<'a> {
    /// For one chain of at most `most` guesses behind tokens that no request edits.
    pub fn new(id: u64, tokens: &'a [u32], most: usize) -> DraftAsk<'a> {
        let edits = DraftEdits::default();
        DraftAsk { id, tokens, prompt_len: tokens.len(), shared: true, most, branches: 1, edits }
    }
}

/// The answer whose mask, bias and penalties guesses follow; none where the tokens are not its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct DraftEdits<'a>(pub Option<&'a Answer>);

impl fmt::Debug for DraftEdits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "those of an answer" } else { "none" })
    }
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
