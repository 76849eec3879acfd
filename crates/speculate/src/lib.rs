//! Floor 5½: speculative decoding. Tokens are guessed, verified in the sequence's next step, and kept where the model itself
//! would have chosen them: an answer is the same with and without, only its speed differs.
//!
//! A [`Drafter`] guesses (one file each), the tuner measures how often guesses are right, the draft budget decides how many
//! of them get rows of a step, the [`DraftVerifier`] finds those that are right. Of the engine it knows a [`DraftedStep`]:
//! sequences by the index of their share of a step, and rows and memory that are left.
#![forbid(unsafe_code)]

mod bridge;
mod budget;
mod draft;
mod drafter;
mod error;
mod follow;
mod head;
mod hidden_rows;
mod index;
mod lookahead;
mod medusa;
mod model;
mod ngram;
mod round;
mod slot;
mod speculator;
mod suffix;
mod taps;
mod tuner;
mod verify;

pub use bridge::BridgedModel;
pub use budget::{DraftBudget, MOST_TUNED, Rejected};
pub use draft::{
    DraftChain, Drafts, Guesses, MOST_BRANCHES, MOST_DRAFTS, Proposal, SIGNS, Speculate, Speculation,
    Verification, Verified,
};
pub use drafter::{DraftAsk, DraftEdits, Drafter, GuessChooser};
pub use error::{Result, SpeculateError};
pub use head::{HeadDrafter, LoadedHead};
pub use lookahead::Lookahead;
pub use medusa::Medusa;
pub use model::DraftModel;
pub use ngram::Ngram;
pub use slot::{DraftSlot, DraftedStep};
pub use speculator::Speculator;
pub use suffix::Suffix;
pub use taps::{TappedRows, WantedTaps};
pub use verify::DraftVerifier;
