//! A round of guesses, depth by depth for all sequences at once: what drafters that compute have in common.

use crate::{
    draft::{Guesses, Proposal},
    drafter::{DraftAsk, DraftEdits, GuessChooser},
    error::{Result, SpeculateError},
};
use lamina_plan::{Batch, Rows, Step};

/// Rows of kept tokens that are computed at once: a long prompt must not hold up the answers of others.
pub(crate) const CATCH_UP: usize = 256;
/// Tokens among which the likelihood of the first one is reckoned.
const FRONT: usize = 8;
/// A chain that is less likely to be right in the drafter's own eyes ends.
const LEAST_CHANCE: f32 = 0.1;
/// A branch that is less likely to be right, by the drafter's own numbers, is not made.
const LEAST_BRANCH: f32 = 0.05;
/// Classes of guesses of the same depth.
const CLASSES: u8 = 8;

/// A sequence in a round of guesses.
pub(crate) struct GuessTurn<'a> {
    pub ask: DraftAsk<'a>,
    pub guesses: Guesses,
    /// How likely all guesses are right, by the drafter's own numbers.
    pub chance: f32,
    /// All kept tokens are computed, and it may go on.
    pub goes_on: bool,
    /// Chooses guesses as the request would, where that is not the likeliest one of a row as it is.
    chooser: Option<Box<dyn GuessChooser>>,
    /// Tokens that came next to the guesses.
    alternates: Vec<Alternate>,
}

/// A token in the place of a guess.
#[derive(Clone, Copy, Debug)]
struct Alternate {
    depth: usize,
    token: u32,
    sign: u8,
    /// How likely it and the guesses before it are right.
    chance: f32,
}

/// What stands behind a token that takes the place of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing: what would come behind it was not computed.
    Nothing,
    /// The same guesses, which do not look at it.
    Same,
}

impl<'a> GuessTurn<'a> {
    /// A turn without guesses, of a sequence that they are possible for.
    pub fn new(ask: &DraftAsk<'a>, able: bool) -> GuessTurn<'a> {
        let chooser = ask.edits.filter(|_| able).and_then(DraftEdits::chooser);
        let guesses = Guesses::default();
        GuessTurn { ask: *ask, guesses, chance: 1.0, goes_on: able, chooser, alternates: vec![] }
    }

    /// True where a further guess is of use.
    pub fn wants_more(&self) -> bool {
        self.guesses.tokens.len() < self.ask.most && self.chance >= LEAST_CHANCE
    }

    /// Takes in the likeliest tokens of a row: the first one is the next guess, the others may become branches.
    fn take(&mut self, found: &[(u32, f32)], id: impl Fn(u32) -> u32) {
        let depth = self.guesses.tokens.len();
        let Some((&(token, likely), others)) = found.split_first() else { return };
        for &(token, likely) in others.iter().take(self.ask.branches - 1) {
            let (chance, sign) = (self.chance * likely, sign(likely, depth > 0));
            if chance >= LEAST_BRANCH {
                self.alternates.push(Alternate { depth, token: id(token), sign, chance });
            }
        }
        self.chance *= likely;
        self.guesses.push(id(token), sign(likely, depth > 0));
    }

    /// The guesses, and branches of them with the likeliest of the tokens that came next.
    pub fn proposal(mut self, behind: Behind) -> Proposal {
        self.alternates.sort_by(|a, b| b.chance.total_cmp(&a.chance));
        let branch = |a: &Alternate| {
            let mut branch = self.guesses.clone();
            if behind == Behind::Nothing {
                branch.truncate(a.depth + 1);
            }
            (branch.tokens[a.depth], branch.signs[a.depth]) = (a.token, a.sign);
            branch
        };
        let branches: Vec<_> = self.alternates.iter().take(self.ask.branches - 1).map(branch).collect();
        let mut chains = self.guesses.alone();
        chains.extend(branches);
        chains
    }
}

/// Runs a step of a drafter.
pub(crate) fn run<'s>(step: &'s mut dyn Step, batch: &Batch) -> Result<&'s dyn Rows> {
    step.run(batch).map_err(SpeculateError::from)
}

/// The most likely token of each sequence that goes on, in the order of their rows, and those that come next; `id` is the
/// model's number for a token of the drafter.
pub(crate) fn guess(rows: &dyn Rows, turns: &mut [GuessTurn<'_>], id: impl Fn(u32) -> u32) -> Result<()> {
    let mut row = vec![];
    for (i, turn) in turns.iter_mut().filter(|t| t.goes_on).enumerate() {
        let found = match &mut turn.chooser {
            Some(chooser) => {
                rows.logits(i, &mut row)?;
                chooser.choose(&mut row, turn.ask.branches)
            }
            None => likeliest(&rows.top_k(i, FRONT)?),
        };
        turn.goes_on = found.is_some();
        turn.take(&found.unwrap_or_default(), &id);
    }
    Ok(())
}

/// How likely each token of a row's front is among them; none where the row holds no numbers.
fn likeliest(front: &[(u32, f32)]) -> Option<Vec<(u32, f32)>> {
    let best = front.first()?.1;
    let all: f32 = front.iter().map(|(_, logit)| (logit - best).exp()).sum();
    let likely = |&(token, logit): &(u32, f32)| (token, (logit - best).exp() / all);
    (all.is_finite() && all > 0.0).then(|| front.iter().map(likely).collect())
}

/// Class of a guess by how likely the drafter finds it, and whether it rests on another one.
fn sign(chance: f32, deeper: bool) -> u8 {
    let class = (chance * f32::from(CLASSES)).clamp(0.0, f32::from(CLASSES - 1)) as u8;
    class + if deeper { CLASSES } else { 0 }
}

/// How often a guess of a class is right, before any was tried.
pub(crate) fn prior(sign: u8) -> f32 {
    0.15 + 0.1 * f32::from(sign % CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(branches: usize) -> GuessTurn<'static> {
        let ask = DraftAsk { branches, ..DraftAsk::new(1, &[5], 9) };
        let mut turn = GuessTurn::new(&ask, true);
        turn.take(&[(1, 0.6), (2, 0.3), (3, 0.04), (4, 0.01)], |token| token + 10);
        turn.take(&[(5, 0.5), (6, 0.25), (7, 0.2)], |token| token + 10);
        turn.take(&[(8, 0.9), (9, 0.1)], |token| token + 10);
        turn
    }

    fn tokens(turn: GuessTurn<'_>, behind: Behind) -> Vec<Vec<u32>> {
        turn.proposal(behind).into_iter().map(|chain| chain.tokens).collect()
    }

    #[test]
    fn the_likeliest_of_the_second_choices_become_branches() {
        let first = vec![11, 15, 18];
        assert_eq!(tokens(turn(1), Behind::Nothing), std::slice::from_ref(&first));
        let want = [first.clone(), vec![12], vec![11, 16], vec![11, 17]];
        assert_eq!(tokens(turn(4), Behind::Nothing), want);
        assert_eq!(tokens(turn(3), Behind::Same), [first, vec![12, 15, 18], vec![11, 16, 18]]);
        let ask = DraftAsk { branches: 4, ..turn(4).ask };
        assert!(GuessTurn::new(&ask, true).proposal(Behind::Nothing).is_empty());
    }

    #[test]
    fn signs_tell_how_likely_a_token_is_and_whether_it_rests_on_another() {
        let chains = turn(3).proposal(Behind::Same);
        assert_eq!(chains[1].signs, [2, chains[0].signs[1], chains[0].signs[2]]);
        assert_eq!(chains[2].signs[1], CLASSES + 2);
    }
}
