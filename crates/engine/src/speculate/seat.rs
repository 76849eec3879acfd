//! Sequences that may get drafts in a step, and what drafters offer for them.

use super::{
    market::{Bid, BranchBid, MOST_TUNED, Market, Portion},
    tuner::expected,
};
use crate::{
    drafting::{Guesses, MOST_DRAFTS, Speculate},
    purpose::Purpose,
    schedule::{Schedule, Share, StepPlan},
    sequence::Sequence,
};

/// Sequences with more rows than so in a step get no drafts: most of these rows would be computed again where a
/// recurrent state has to be put back.
const MOST_OWN_ROWS: usize = MOST_DRAFTS + 1;

/// A sequence that may get drafts in a step.
pub(super) struct DraftSeat {
    /// Index of its share.
    pub share: usize,
    pub seq: usize,
    pub id: u64,
    /// Rows before its drafts.
    pub rows: usize,
    /// Most drafts of a chain.
    pub most: usize,
    pub speculate: Speculate,
    pub offer: Option<Offer>,
}

/// The best chains for a sequence so far, those of one drafter.
pub(super) struct Offer {
    pub by: usize,
    /// The first one, and branches.
    pub chains: Vec<OfferedChain>,
    pub due: bool,
}

/// A chain, and how likely each of its guesses is to be kept.
pub(super) struct OfferedChain {
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

/// What drafts may have.
#[derive(Clone, Copy)]
pub(super) struct SeatRoom {
    /// Rows that are left in a step.
    pub rows: usize,
    /// Width of requests that do not say.
    pub width: Option<usize>,
}

/// The sequences that may get drafts in a step.
pub(super) fn seats(plan: &StepPlan, schedule: &Schedule, context: usize, room: SeatRoom) -> Vec<DraftSeat> {
    // While prompts are computed, rows are not free. A prompt without rows may wait for a step of answers alone to be
    // measured (`Cost::prompt_rows`), which steps with drafts would put off for ever.
    let going_on = |share: &Share| goes_on(share, &schedule.running[share.seq]);
    let all_have = schedule.running.iter().filter(|s| !s.paused).count() == plan.shares.len();
    if !all_have {
        return vec![];
    }
    let quiet = plan.shares.iter().all(going_on);
    let seat = |(i, share): (usize, &Share)| {
        let s = &schedule.running[share.seq];
        let Purpose::Answer(answer) = &s.purpose else { return None };
        let mut speculate = answer.generation.speculate.clone();
        speculate.width = speculate.width.or(room.width);
        let width = speculate.width.unwrap_or(if quiet { MOST_TUNED } else { 0 });
        // The last token of an answer is chosen and not computed.
        let most = width.min(room.rows).min(s.room(context).saturating_sub(1));
        let (id, seq, rows) = (s.id, share.seq, share.rows);
        let able = most > 0 && going_on(share);
        able.then_some(DraftSeat { share: i, seq, id, rows, most, speculate, offer: None })
    };
    plan.shares.iter().enumerate().filter_map(seat).collect()
}

/// True for the rows of an answer that has begun, up to its last token.
fn goes_on(share: &Share, s: &Sequence) -> bool {
    // Drafts beside a window would see what rows in their place do not.
    share.left == 0 && s.answered() > 0 && share.rows <= MOST_OWN_ROWS && s.is_drafted() && !s.closes()
}

/// What each seat gets: of a set width as much as was asked for, of others what pays.
pub(super) fn divide(seats: &[DraftSeat], market: &Market<'_>) -> Vec<Portion> {
    let mut left = market.room;
    let mut portions: Vec<_> = seats.iter().map(|seat| set_portion(seat, &mut left)).collect();
    let tuned = Market {
        room: left,
        size: crate::cost::Size { rows: market.size.rows + market.room - left, ..market.size },
        ..*market
    };
    let bids: Vec<_> = seats.iter().map(bid).collect();
    for (portion, more) in portions.iter_mut().zip(tuned.divide(&bids)) {
        if more.width > 0 {
            *portion = more;
        }
    }
    portions
}

/// What a seat of a set width gets of the rows that are left.
fn set_portion(seat: &DraftSeat, left: &mut usize) -> Portion {
    let Some(offer) = seat.offer.as_ref().filter(|_| seat.speculate.width.is_some()) else {
        return Portion::default();
    };
    let mut lengths = offer.chains.iter().map(|chain| chain.guesses.tokens.len());
    let width = lengths.next().unwrap_or(0).min(*left);
    *left -= width;
    let mut portion = Portion { width, branches: vec![] };
    for (k, len) in lengths.enumerate().take_while(|_| width > 0) {
        let len = len.min(left.saturating_sub(seat.rows));
        if len > 0 {
            portion.branches.push((k, len));
            *left -= seat.rows + len;
        }
    }
    portion
}

/// What a seat whose width follows measurement bids.
fn bid(seat: &DraftSeat) -> Bid {
    let offer = seat.offer.as_ref().filter(|_| seat.speculate.width.is_none());
    let Some((offer, (first, branches))) = offer.and_then(|o| Some((o, o.chains.split_first()?))) else {
        return Bid::default();
    };
    let branch =
        |b: &OfferedChain| BranchBid { chances: b.chances.clone(), shared: first.guesses.common(&b.guesses) };
    Bid {
        chances: first.chances.clone(),
        due: offer.due,
        branches: branches.iter().map(branch).collect(),
        rows: seat.rows,
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
        let seat = DraftSeat { share: 0, seq: 0, id: 0, rows: 2, most: 3, speculate, offer };
        for (room, branches, rest) in [
            (2, vec![], 0),
            (5, vec![], 2),
            (6, vec![(0, 1)], 0),
            (9, vec![(0, 2)], 2),
            (20, vec![(0, 2), (1, 3)], 8),
        ] {
            let mut left = room;
            let portion = set_portion(&seat, &mut left);
            assert_eq!((portion.branches, left, portion.width), (branches, rest, room.min(3)), "{room}");
        }
    }
}
