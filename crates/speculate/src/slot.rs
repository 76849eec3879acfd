//! Sequences that may get drafts in a step, and what drafters offer for them.

use crate::{
    budget::{Bid, BranchBid, DraftBudget, Portion},
    draft::{Drafts, Guesses, Speculate},
    drafter::DraftAsk,
    tuner::expected,
};

/// A step that drafts are put into. Sequences are named by the index of their share of it.
pub trait DraftedStep {
    /// The sequence, for one chain of one guess.
    fn ask(&self, share: usize) -> DraftAsk<'_>;

    /// How many of `tokens` may be the answer's next ones in turn, and do not end it.
    fn legal(&mut self, share: usize, tokens: &[u32]) -> usize;

    /// Gives a sequence up to `drafts` rows of drafts, in memory that nobody holds; returns how many it got.
    fn extend(&mut self, share: usize, drafts: usize) -> usize;

    /// Gives a sequence a branch of `drafts` drafts, where rows and memory are left; false where they are not.
    fn branch(&mut self, share: usize, drafts: usize) -> bool;

    /// Hands a sequence the drafts that got rows, those of drafter `method`.
    fn put(&mut self, share: usize, drafts: Drafts, method: &'static str);
}

/// A sequence that may get drafts in a step.
pub struct DraftSlot {
    /// Index of its share.
    pub share: usize,
    /// Rows before its drafts.
    pub rows: usize,
    /// Most drafts of a chain.
    pub most: usize,
    /// What its request says.
    pub speculate: Speculate,
    /// The best that drafters have offered so far.
    pub(crate) offer: Option<Offer>,
}

impl DraftSlot {
    /// Without an offer.
    pub fn new(share: usize, rows: usize, most: usize, speculate: Speculate) -> DraftSlot {
        DraftSlot { share, rows, most, speculate, offer: None }
    }
}

/// The best chains for a sequence so far, those of one drafter.
pub(crate) struct Offer {
    pub by: usize,
    /// The first one, and branches.
    pub chains: Vec<OfferedChain>,
    pub due: bool,
}

/// A chain, and how likely each of its guesses is to be kept.
pub(crate) struct OfferedChain {
    pub guesses: Guesses,
    pub chances: Vec<f32>,
}

impl Offer {
    /// Tokens that its first chain is expected to bring.
    pub fn brings(&self) -> f32 {
        self.chains.first().map_or(0.0, |chain| expected(&chain.chances))
    }

    /// Cuts each chain to the length that `len` allows, and leaves out those that are the beginning of an earlier one. True
    /// when that changed anything.
    pub fn cut(&mut self, mut len: impl FnMut(&[u32]) -> usize) -> bool {
        let mut cut = false;
        for chain in &mut self.chains {
            let len = len(&chain.guesses.tokens);
            cut |= len < chain.guesses.tokens.len();
            chain.guesses.truncate(len);
            chain.chances.truncate(len);
        }
        let count = self.chains.len();
        let mut kept: Vec<OfferedChain> = Vec::with_capacity(count);
        for chain in self.chains.drain(..) {
            let len = chain.guesses.tokens.len();
            if len > 0 && kept.iter().all(|k| k.guesses.common(&chain.guesses) < len) {
                kept.push(chain);
            }
        }
        self.chains = kept;
        cut || self.chains.len() < count
    }
}

/// What each slot gets: of a set width as much as was asked for, of others what pays.
pub(crate) fn divide(slots: &[DraftSlot], budget: &DraftBudget<'_>) -> Vec<Portion> {
    let mut left = budget.room;
    let mut portions: Vec<_> = slots.iter().map(|slot| set_portion(slot, &mut left)).collect();
    let tuned = DraftBudget { room: left, rows: budget.rows + budget.room - left, ..*budget };
    let bids: Vec<_> = slots.iter().map(bid).collect();
    for (portion, more) in portions.iter_mut().zip(tuned.divide(&bids)) {
        if more.width > 0 {
            *portion = more;
        }
    }
    portions
}

/// What a slot of a set width gets of the rows that are left.
fn set_portion(slot: &DraftSlot, left: &mut usize) -> Portion {
    let Some(offer) = slot.offer.as_ref().filter(|_| slot.speculate.width.is_some()) else {
        return Portion::default();
    };
    let mut lengths = offer.chains.iter().map(|chain| chain.guesses.tokens.len());
    let width = lengths.next().unwrap_or(0).min(*left);
    *left -= width;
    let mut portion = Portion { width, branches: vec![] };
    for (k, len) in lengths.enumerate().take_while(|_| width > 0) {
        let len = len.min(left.saturating_sub(slot.rows));
        if len > 0 {
            portion.branches.push((k, len));
            *left -= slot.rows + len;
        }
    }
    portion
}

/// What a slot whose width follows measurement bids.
fn bid(slot: &DraftSlot) -> Bid {
    let offer = slot.offer.as_ref().filter(|_| slot.speculate.width.is_none());
    let Some((offer, (first, branches))) = offer.and_then(|o| Some((o, o.chains.split_first()?))) else {
        return Bid::default();
    };
    let branch =
        |b: &OfferedChain| BranchBid { chances: b.chances.clone(), shared: first.guesses.common(&b.guesses) };
    Bid {
        chances: first.chances.clone(),
        due: offer.due,
        branches: branches.iter().map(branch).collect(),
        rows: slot.rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(chains: &[&[u32]]) -> Offer {
        let chain = |tokens: &&[u32]| OfferedChain {
            guesses: Guesses { tokens: tokens.to_vec(), signs: vec![0; tokens.len()] },
            chances: vec![0.5; tokens.len()],
        };
        Offer { by: 0, chains: chains.iter().map(chain).collect(), due: false }
    }

    fn tokens(offer: &Offer) -> Vec<&[u32]> {
        offer.chains.iter().map(|c| &c.guesses.tokens[..]).collect()
    }

    #[test]
    fn chains_that_say_nothing_new_are_left_out() {
        let mut some = offer(&[&[1, 2, 3], &[1, 2], &[], &[1, 4], &[1, 2, 3, 5]]);
        assert!(some.cut(|tokens| tokens.len()));
        assert!(!some.cut(|tokens| tokens.len()));
        assert_eq!(tokens(&some), [&[1, 2, 3][..], &[1, 4], &[1, 2, 3, 5]]);
        assert!(some.cut(|tokens| tokens.iter().take_while(|t| **t != 2).count()));
        assert_eq!(tokens(&some), [&[1][..], &[1, 4]]);
        assert!(some.cut(|_| 0) && some.chains.is_empty());
    }

    #[test]
    fn a_set_width_takes_branches_while_rows_are_left() {
        let speculate = Speculate { width: Some(3), ..Speculate::default() };
        let offer = Some(offer(&[&[1, 2, 3], &[4, 5], &[6, 7, 8]]));
        let slot = DraftSlot { share: 0, rows: 2, most: 3, speculate, offer };
        for (room, branches, rest) in [
            (2, vec![], 0),
            (5, vec![], 2),
            (6, vec![(0, 1)], 0),
            (9, vec![(0, 2)], 2),
            (20, vec![(0, 2), (1, 3)], 8),
        ] {
            let mut left = room;
            let portion = set_portion(&slot, &mut left);
            assert_eq!((portion.branches, left, portion.width), (branches, rest, room.min(3)), "{room}");
        }
    }
}
