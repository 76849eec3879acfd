//! Verification of drafts: an answer chooses its next tokens from the rows of its drafts.

use crate::{
    answer::{Answer, Chosen, row::LogitsRow},
    error::Result,
};
use lamina_plan::Rows;
use lamina_speculate::{DraftVerifier, Verification};

/// Where the rows of an answer's chains of drafts are among those with logits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainRows<'a> {
    /// The row of the last token, before those of the first chain's drafts.
    pub first: usize,
    /// The row of the first draft of each branch.
    pub branches: &'a [usize],
}

impl ChainRows<'_> {
    /// The row of the last of `depth` drafts of a chain, or of the token before them.
    fn at(self, chain: usize, depth: usize) -> usize {
        match (chain, depth) {
            (0, _) | (_, 0) => self.first + depth,
            (branch, _) => self.branches[branch - 1] + depth - 1,
        }
    }
}

/// Chooses an answer's next tokens from the row of its last token and from those of its drafts behind it, as long as what
/// is chosen is what a chain of drafts has. `room` tokens are left to the answer.
///
/// Each choice is made exactly as in a step of its own: mask, penalties, random numbers and stop strings follow from the
/// tokens that were chosen before, and rows behind a wrong draft are never looked at. Chains that begin alike have equal
/// bits in their rows, so it is of no matter whose row is read.
///
/// # Errors
/// When the first row leaves no choice; a later one's failure comes behind the tokens before it.
pub(crate) fn choose<const TRACED: bool>(
    answer: &mut Answer,
    rows: &dyn Rows,
    places: ChainRows<'_>,
    room: usize,
) -> (Result<Chosen>, Verification) {
    let mut all = match answer.choose::<TRACED>(LogitsRow::of(rows, places.first), room) {
        Ok(chosen) => chosen,
        Err(e) => return (Err(e), Verification::default()),
    };
    let chains = std::mem::take(&mut answer.drafts.chains);
    let mut verifier = DraftVerifier::new(&chains);
    let mut met = 0;
    // Forced tokens may be several: those that were drafted have their rows, and the last of them goes on.
    while verifier.follow(all.tokens[met..].iter().map(|t| t.id))
        && all.stop.is_none()
        && all.tokens.len() < room
    {
        met = all.tokens.len();
        let row = LogitsRow::of(rows, places.at(verifier.chain(), verifier.depth()));
        match answer.choose::<TRACED>(row, room - met) {
            Ok(chosen) => all.append(chosen),
            Err(e) => {
                all.failure = Some(e);
                break;
            }
        }
    }
    let verification = verifier.verification();
    answer.drafts.chains = chains;
    (Ok(all), verification)
}
