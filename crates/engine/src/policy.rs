//! Who goes first, and how many rows each running sequence gets of a step. Pure: numbers in, numbers out.
//!
//! Every answer that decodes gets one row, in turn where they are more than fit. Prompts get the rest while nothing
//! decodes, else as many rows as keep the step's time within what the policy allows; half of them go to the prompt
//! with the least left, so that short ones start soon, and half to the oldest, so that long ones go on.

use crate::cost::{Cost, LEAST_PROMPT_ROWS, Size};
use std::time::Duration;

/// What an engine allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Sequences that run at once; never more than rows with logits of a step.
    pub max_running: usize,
    /// Requests that may wait for their first step.
    pub max_queue: usize,
    /// Part of a step's time that prompts may take while answers decode, from 0 to below 1. With one half, the next
    /// token of an answer comes within the time of two steps without prompts.
    pub prefill_share: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { max_running: usize::MAX, max_queue: usize::MAX, prefill_share: 0.5 }
    }
}

/// Waiting time that counts as one step of priority, so that nobody waits forever.
const AGING: Duration = Duration::from_secs(10);

/// Level of a sequence: its priority, less what it has earned by waiting.
pub(crate) fn level(priority: i32, waited: Duration) -> i64 {
    i64::from(priority) - (waited.as_secs() / AGING.as_secs()) as i64
}

/// Order of running sequences: the smallest is served first with memory, the greatest is preempted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// See [`level`].
    pub level: i64,
    /// Its reader is behind.
    pub paused: bool,
    /// Number of the sequence, in the order of arrival.
    pub id: u64,
}

/// A running sequence, as the policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub rank: Rank,
    /// Tokens that have to be computed.
    pub pending: usize,
    /// Rows that it can use in one step.
    pub most: usize,
    /// Fewer rows are of no use: 1, all that are pending where rows see later ones, or those of a window that decides what
    /// stays of a prompt.
    pub least: usize,
    /// Of its pending rows, how many of the last are selected: they pass the final norm.
    pub tail: usize,
    /// Tokens that its next row sees.
    pub depth: usize,
    /// It is an answer whose prompt is computed: its rows are its last tokens, more than one where several are chosen at
    /// once.
    pub answers: bool,
}

impl Candidate {
    fn decodes(&self) -> bool {
        self.tail == 1 && (self.pending == 1 || self.answers)
    }

    /// Rows before the selected ones.
    fn free(&self) -> usize {
        self.pending.saturating_sub(self.tail)
    }

    /// Selected rows among its next `rows` rows.
    pub fn selected(&self, rows: usize) -> usize {
        rows.saturating_sub(self.free())
    }
}

/// Rows of a step, or what is left of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub rows: usize,
    /// Selected rows.
    pub selected: usize,
}

/// Rows of each candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub rows: Vec<usize>,
    /// Number of the sequence that decodes first in the next step.
    pub next: u64,
}

/// Divides the rows of a step; the answer of sequence `first`, or of the next one behind it, decodes first.
pub(crate) fn divide(
    candidates: &[Candidate],
    room: Room,
    first: u64,
    cost: &Cost,
    prefill_share: f64,
) -> Division {
    let mut divider = Divider { candidates, rows: vec![0; candidates.len()], left: room };
    let able = |i: &usize| !candidates[*i].rank.paused && candidates[*i].most > 0;
    let (mut decoding, prompts): (Vec<usize>, Vec<usize>) =
        (0..candidates.len()).filter(able).partition(|&i| candidates[i].decodes());
    let turn = |i: &usize| (candidates[*i].rank.id < first, candidates[*i].rank.id);
    decoding.sort_by_key(turn);
    let kept = kept_for(prompts.iter().map(|&i| &candidates[i]), room);
    let fit = Room { rows: room.rows - kept.rows, selected: room.selected - kept.selected };
    let (served, rows) = divider.answers(&decoding, fit);
    let next = decoding.get(served).map_or(0, |&i| candidates[i].rank.id);
    let depth = decoding[..served].iter().map(|&i| candidates[i].depth).sum::<usize>() / served.max(1);
    let budget = match served {
        0 => divider.left.rows,
        _ => {
            let deep = prompts.iter().map(|&i| candidates[i].depth).sum::<usize>() / prompts.len().max(1);
            cost.prompt_rows(Size { rows, depth }, deep, prefill_share, divider.left.rows)
        }
    };
    divider.prompts(prompts, budget);
    Division { rows: divider.rows, next }
}

/// Rows that answers leave to prompts, however many there are: a first one, and those that come whole.
fn kept_for<'a>(prompts: impl Iterator<Item = &'a Candidate>, room: Room) -> Room {
    let half = Room { rows: room.rows / 2, selected: room.selected / 2 };
    let least = |c: &Candidate| Room {
        rows: c.least.max(LEAST_PROMPT_ROWS).min(half.rows),
        selected: c.selected(c.least).max(1).min(half.selected),
    };
    prompts.map(least).fold(Room { rows: 0, selected: 0 }, |a, b| Room {
        rows: a.rows.max(b.rows),
        selected: a.selected.max(b.selected),
    })
}

struct Divider<'a> {
    candidates: &'a [Candidate],
    rows: Vec<usize>,
    left: Room,
}

impl Divider<'_> {
    /// Gives answers their rows while `fit` has room; how many got theirs, and how many rows those are.
    fn answers(&mut self, decoding: &[usize], fit: Room) -> (usize, usize) {
        let mut rows = 0;
        for (served, &i) in decoding.iter().enumerate() {
            if rows == fit.rows || served == fit.selected {
                return (served, rows);
            }
            rows += self.give(i, self.candidates[i].pending.min(fit.rows - rows));
        }
        (decoding.len(), rows)
    }

    /// Divides `budget` rows among prompts, those of the lowest level first.
    fn prompts(&mut self, mut prompts: Vec<usize>, mut budget: usize) {
        prompts.sort_by_key(|&i| (self.candidates[i].rank.level, self.candidates[i].rank.id));
        let candidates = self.candidates;
        for level in prompts.chunk_by(|&a, &b| candidates[a].rank.level == candidates[b].rank.level) {
            let Some(&shortest) = level.iter().min_by_key(|&&i| candidates[i].pending) else { continue };
            // Whole texts go by age alone: short ones before them could keep a long one out for ever.
            if candidates[shortest].least == 1 {
                budget -= self.give(shortest, budget.div_ceil(2));
            }
            for &i in level {
                // What comes whole would never come while answers hold prompts to fewer rows.
                let rows = if candidates[i].least > 1 { budget.max(candidates[i].least) } else { budget };
                budget = budget.saturating_sub(self.give(i, rows));
            }
        }
    }

    /// Gives candidate `i` up to `rows` more rows; returns how many.
    fn give(&mut self, i: usize, rows: usize) -> usize {
        let (c, has) = (&self.candidates[i], self.rows[i]);
        let unselected = c.free().saturating_sub(has);
        let got = rows.min(c.most - has).min(self.left.rows).min(unselected + self.left.selected);
        let got = if has + got < c.least { 0 } else { got };
        self.left.selected -= c.selected(has + got) - c.selected(has);
        self.left.rows -= got;
        self.rows[i] += got;
        got
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoding(id: u64) -> Candidate {
        let rank = Rank { level: 0, paused: false, id };
        Candidate { rank, pending: 1, most: 1, least: 1, tail: 1, depth: 100, answers: true }
    }

    fn prompt(id: u64, pending: usize) -> Candidate {
        Candidate { pending, most: pending, depth: 0, answers: false, ..decoding(id) }
    }

    fn rows(candidates: &[Candidate], rows: usize, selected: usize) -> Vec<usize> {
        divide(candidates, Room { rows, selected }, 0, &Cost::default(), 0.5).rows
    }

    #[test]
    fn prompts_take_all_rows_while_nothing_decodes() {
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 700)], 512, 64), [256, 256]);
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 40)], 512, 64), [472, 40]);
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 900)], 512, 64), [512, 0], "the oldest of equal ones");
        assert_eq!(rows(&[prompt(0, 90), prompt(1, 50), prompt(2, 70)], 512, 64), [90, 50, 70]);
    }

    #[test]
    fn answers_hold_prompts_to_a_few_rows() {
        assert_eq!(rows(&[decoding(0), prompt(1, 900)], 512, 64), [1, 7]);
        assert_eq!(rows(&[decoding(0), prompt(1, 900), prompt(2, 300)], 512, 64), [1, 3, 4]);
    }

    #[test]
    fn lower_levels_come_first() {
        let urgent = Candidate { rank: Rank { level: -3, paused: false, id: 9 }, ..prompt(9, 600) };
        assert_eq!(rows(&[prompt(0, 900), urgent], 512, 64), [0, 512]);
    }

    #[test]
    fn answers_take_turns() {
        let candidates: Vec<_> = (0..7).map(decoding).collect();
        let (mut first, mut got) = (0, vec![0; 7]);
        for _ in 0..7 {
            let d = divide(&candidates, Room { rows: 64, selected: 3 }, first, &Cost::default(), 0.5);
            first = d.next;
            got.iter_mut().zip(&d.rows).for_each(|(all, &rows)| *all += rows);
        }
        assert_eq!(got, [3; 7]);
    }

    #[test]
    fn rows_before_the_tail_take_no_room_of_selected_ones() {
        let tail = |pending: usize, tail: usize| Candidate { tail, ..prompt(0, pending) };
        assert_eq!(rows(&[tail(100, 30)], 512, 8), [78], "70 that are free and 8 that are selected");
        assert_eq!(rows(&[tail(30, 30)], 512, 8), [8]);
        assert_eq!(rows(&[tail(30, usize::MAX)], 512, 8), [8]);
        assert_eq!(rows(&[tail(30, 0)], 512, 8), [30]);
        assert_eq!(rows(&[tail(30, 1), Candidate { tail: 9, ..prompt(1, 20) }], 512, 4), [29, 15]);
    }

    #[test]
    fn whole_texts_get_all_of_their_rows_or_none_and_the_oldest_first() {
        let whole = |id, n| Candidate { least: n, tail: usize::MAX, ..prompt(id, n) };
        assert_eq!(rows(&[whole(0, 500), whole(1, 20), whole(2, 12)], 512, 512), [500, 0, 12]);
        assert_eq!(rows(&[whole(3, 20), whole(4, 500), whole(5, 400)], 512, 512), [20, 0, 400]);
    }

    #[test]
    fn windows_come_whole_beside_any_number_of_answers() {
        let window = |id| Candidate { pending: 40, most: 32, least: 32, ..prompt(id, 40) };
        let answers: Vec<_> = (0..100).map(decoding).collect();
        let got = rows(&[&answers[..], &[window(200)]].concat(), 64, 200);
        assert_eq!((got[100], got[..100].iter().sum::<usize>()), (32, 32));
        let scored = Candidate { tail: usize::MAX, ..window(200) };
        assert_eq!(rows(&[&answers[..], &[scored]].concat(), 512, 64)[100], 32);
        assert_eq!(rows(&[decoding(0), window(1), prompt(2, 900)], 512, 64)[..2], [1, 32]);
    }

    #[test]
    fn paused_ones_get_nothing() {
        let paused = |c: Candidate| Candidate { rank: Rank { paused: true, ..c.rank }, ..c };
        assert_eq!(rows(&[paused(decoding(0)), paused(prompt(1, 9)), prompt(2, 30)], 64, 9), [0, 0, 30]);
    }

    #[test]
    fn answers_with_several_tokens_to_compute_come_before_prompts() {
        let several = Candidate { pending: 6, most: 6, ..decoding(0) };
        assert_eq!(rows(&[several, decoding(1), prompt(2, 900)], 512, 64)[..2], [6, 1]);
        assert_eq!(rows(&[several, decoding(1)], 4, 64), [4, 0], "the rest comes with the next step");
    }

    fn any_candidate(id: u64) -> impl Strategy<Value = Candidate> {
        (1usize..300, 1usize..300, 0usize..5, any::<bool>(), -2i64..2, any::<bool>()).prop_map(
            move |(pending, most, tail, paused, level, answers)| Candidate {
                rank: Rank { level, paused, id },
                pending,
                most: most.min(pending),
                least: 1,
                tail: [0, 1, 2, 40, usize::MAX][tail],
                depth: 10,
                answers,
            },
        )
    }

    proptest! {
        #[test]
        fn never_more_than_there_are_and_never_nothing(
            candidates in (1usize..20).prop_flat_map(|n| (0..n as u64).map(any_candidate).collect::<Vec<_>>()),
            rows in 1usize..200, selected in 1usize..40, first in 0u64..20,
        ) {
            let d = divide(&candidates, Room { rows, selected }, first, &Cost::default(), 0.5);
            let all: usize = d.rows.iter().sum();
            let with_logits: usize = candidates.iter().zip(&d.rows).map(|(c, &r)| c.selected(r)).sum();
            prop_assert!(all <= rows && with_logits <= selected, "{all} rows, {with_logits} with logits");
            prop_assert!(candidates.iter().zip(&d.rows).all(|(c, &r)| r <= c.most && (r == 0 || !c.rank.paused)));
            prop_assert!(all > 0 || candidates.iter().all(|c| c.rank.paused));
        }
    }
}
