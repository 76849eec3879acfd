//! A round of guesses, depth by depth for all sequences at once: what drafters that compute have in common.

use super::drafter::DraftAsk;
use crate::{
    answer::Answer,
    chooser::DraftChooser,
    drafting::Guesses,
    error::{EngineError, Result},
};
use lamina_plan::{Batch, Rows, Step};

/// Rows of kept tokens that are computed at once: a long prompt must not hold up the answers of others.
pub(super) const CATCH_UP: usize = 256;
/// Tokens among which the likelihood of the first one is reckoned.
const FRONT: usize = 8;
/// A chain that is less likely to be right in the drafter's own eyes ends.
const LEAST_CHANCE: f32 = 0.1;
/// Classes of guesses of the same depth.
const CLASSES: u8 = 8;

/// A sequence in a round of guesses.
pub(super) struct GuessTurn<'a> {
    pub ask: DraftAsk<'a>,
    pub guesses: Guesses,
    /// How likely all guesses are right, by the drafter's own numbers.
    pub chance: f32,
    /// All kept tokens are computed, and it may go on.
    pub goes_on: bool,
    /// Chooses guesses as the request would, where that is not the likeliest one of a row as it is.
    chooser: Option<DraftChooser>,
}

impl<'a> GuessTurn<'a> {
    /// A turn without guesses, of a sequence that they are possible for.
    pub fn new(ask: &DraftAsk<'a>, able: bool) -> GuessTurn<'a> {
        let chooser = ask.edits.0.filter(|_| able).and_then(Answer::chooser);
        GuessTurn { ask: *ask, guesses: Guesses::default(), chance: 1.0, goes_on: able, chooser }
    }

    /// True where a further guess is of use.
    pub fn wants_more(&self) -> bool {
        self.guesses.tokens.len() < self.ask.most && self.chance >= LEAST_CHANCE
    }
}

/// Runs a step of a drafter.
pub(super) fn run<'s>(step: &'s mut dyn Step, batch: &Batch) -> Result<&'s dyn Rows> {
    step.run(batch).map_err(EngineError::from)
}

/// The most likely token of each sequence that goes on, in the order of their rows; `id` is the model's number for a
/// token of the drafter.
pub(super) fn guess(rows: &dyn Rows, turns: &mut [GuessTurn<'_>], id: impl Fn(u32) -> u32) -> Result<()> {
    let mut row = vec![];
    for (i, turn) in turns.iter_mut().filter(|t| t.goes_on).enumerate() {
        let found = match &mut turn.chooser {
            Some(chooser) => {
                rows.logits(i, &mut row)?;
                chooser.choose(&mut row)
            }
            None => likeliest(&rows.top_k(i, FRONT)?),
        };
        turn.goes_on = found.is_some();
        if let Some((token, chance)) = found {
            turn.chance *= chance;
            let deeper = !turn.guesses.tokens.is_empty();
            turn.guesses.push(id(token), sign(chance, deeper));
        }
    }
    Ok(())
}

/// The first token of a row's front, and how likely it is among them; none where the row holds no numbers.
fn likeliest(front: &[(u32, f32)]) -> Option<(u32, f32)> {
    let &(token, best) = front.first()?;
    let all: f32 = front.iter().map(|(_, logit)| (logit - best).exp()).sum();
    (all.is_finite() && all > 0.0).then_some((token, 1.0 / all))
}

/// Class of a guess by how likely the drafter finds it, and whether it rests on another one.
fn sign(chance: f32, deeper: bool) -> u8 {
    let class = (chance * f32::from(CLASSES)).clamp(0.0, f32::from(CLASSES - 1)) as u8;
    class + if deeper { CLASSES } else { 0 }
}

/// How often a guess of a class is right, before any was tried.
pub(super) fn prior(sign: u8) -> f32 {
    0.15 + 0.1 * f32::from(sign % CLASSES)
}
