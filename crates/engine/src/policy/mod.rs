//! Who goes first, and how many rows each running sequence gets of a step. Pure: numbers in, numbers out.
//!
//! Every answer that decodes gets one row, in turn where they are more than fit. Prompts get the rest while nothing
//! decodes, else as many rows as keep the step within the time between tokens that the goal allows: a chunk of many rows
//! costs less a row than several of few. Prompts with the fewest rows left come first, which makes the mean time to the
//! first token short; those that have waited count as shorter, so that long ones come too.

pub(crate) mod cost;
pub(crate) mod goal;
pub(crate) mod tenants;

use crate::policy::{
    cost::{Cost, LEAST_PROMPT_ROWS, Size, StepLimit},
    goal::Goal,
};
use std::{cmp::Ordering, time::Duration};

/// What an engine allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Sequences that run at once; never more than rows with logits of a step.
    pub max_running: usize,
    /// Requests that may wait for their first step.
    pub max_queue: usize,
    /// Part of a step's time that prompts get while answers decode, however slow steps are, from 0 to below 1. With one
    /// half, the next token of an answer comes within the time of two steps without prompts, or within the goal's.
    pub prefill_share: f64,
    /// The times that answers are to keep: what a goal leaves between two tokens is for prompts.
    pub goal: Goal,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { max_running: usize::MAX, max_queue: usize::MAX, prefill_share: 0.5, goal: Goal::default() }
    }
}

/// Waiting time that counts as one step of priority, so that nobody waits forever.
const AGING: Duration = Duration::from_secs(10);

/// A prompt that has waited so long counts as one of half its length.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// Time since it came.
    pub age: Duration,
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

    /// Order of prompts: by level, then by length, then by arrival.
    fn prompt_order(&self, other: &Candidate) -> Ordering {
        let by_length = self.length().total_cmp(&other.length());
        self.rank.level.cmp(&other.rank.level).then(by_length).then(self.rank.id.cmp(&other.rank.id))
    }

    /// How much it comes behind other prompts of its level: by the rows that it has left, and less the longer it has waited.
    /// What comes whole goes by age alone: short ones before it could keep it out for ever.
    fn length(&self) -> f64 {
        let patience = 1.0 + self.age.div_duration_f64(PATIENCE);
        if self.least > 1 { 0.0 } else { self.pending as f64 / patience }
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
    policy: &Policy,
) -> Division {
    let mut divider = Divider { candidates, rows: vec![0; candidates.len()], left: room };
    let able = |i: &usize| !candidates[*i].rank.paused && candidates[*i].most > 0;
    let (mut decoding, mut prompts): (Vec<usize>, Vec<usize>) =
        (0..candidates.len()).filter(able).partition(|&i| candidates[i].decodes());
    prompts.sort_by(|&a, &b| candidates[a].prompt_order(&candidates[b]));
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
            let waiting: Vec<_> = prompts.iter().map(|&i| &candidates[i]).collect();
            prompt_rows(&waiting, Size { rows, depth }, cost, policy, divider.left.rows)
        }
    };
    divider.prompts(&prompts, budget);
    Division { rows: divider.rows, next }
}

/// Rows for prompts, in their order, beside `decoding` rows of answers: as many as the goal's time between tokens allows, or
/// fewer where all prompts keep its time to the first token with them.
fn prompt_rows(prompts: &[&Candidate], decoding: Size, cost: &Cost, policy: &Policy, room: usize) -> usize {
    let depth = prompts.iter().map(|c| c.depth).sum::<usize>() / prompts.len().max(1);
    let rows = |gap| cost.prompt_rows(decoding, depth, StepLimit { share: policy.prefill_share, gap }, room);
    let most = rows(policy.goal.gap());
    let Some(first) = policy.goal.first else { return most };
    let few = rows(Duration::ZERO);
    let pace = few as f64 / cost.predict(decoding.with(few, depth));
    let ends = prompts.iter().scan(0, |sum, c| {
        *sum += c.pending;
        Some((c.age, *sum))
    });
    let in_time =
        |(age, rows): (Duration, usize)| age.as_secs_f64() + rows as f64 / pace <= first.as_secs_f64();
    if ends.into_iter().all(in_time) { few } else { most }
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

    /// Gives `budget` rows to prompts in their order.
    fn prompts(&mut self, prompts: &[usize], mut budget: usize) {
        for &i in prompts {
            // What comes whole would never come while answers hold prompts to fewer rows.
            let least = self.candidates[i].least;
            let rows = if least > 1 { budget.max(least) } else { budget };
            budget = budget.saturating_sub(self.give(i, rows));
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
        Candidate {
            rank,
            age: Duration::ZERO,
            pending: 1,
            most: 1,
            least: 1,
            tail: 1,
            depth: 100,
            answers: true,
        }
    }

    fn prompt(id: u64, pending: usize) -> Candidate {
        Candidate { pending, most: pending, depth: 0, answers: false, ..decoding(id) }
    }

    fn rows(candidates: &[Candidate], rows: usize, selected: usize) -> Vec<usize> {
        divide(candidates, Room { rows, selected }, 0, &Cost::default(), &Policy::default()).rows
    }

    #[test]
    fn prompts_take_all_rows_while_nothing_decodes() {
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 700)], 512, 64), [0, 512]);
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 40)], 512, 64), [472, 40]);
        assert_eq!(rows(&[prompt(0, 900), prompt(1, 900)], 512, 64), [512, 0], "the oldest of equal ones");
        assert_eq!(rows(&[prompt(0, 90), prompt(1, 50), prompt(2, 70)], 512, 64), [90, 50, 70]);
    }

    #[test]
    fn answers_hold_prompts_to_a_few_rows() {
        assert_eq!(rows(&[decoding(0), prompt(1, 900)], 512, 64), [1, 7]);
        assert_eq!(rows(&[decoding(0), prompt(1, 900), prompt(2, 300)], 512, 64), [1, 0, 7]);
    }

    #[test]
    fn lower_levels_come_first() {
        let urgent = Candidate { rank: Rank { level: -3, paused: false, id: 9 }, ..prompt(9, 600) };
        assert_eq!(rows(&[prompt(0, 900), urgent], 512, 64), [0, 512]);
    }

    #[test]
    fn the_fewest_rows_come_first_until_a_long_prompt_has_waited() {
        let aged = |c: Candidate, seconds| Candidate { age: Duration::from_secs(seconds), ..c };
        assert_eq!(rows(&[aged(prompt(0, 900), 1), prompt(1, 300)], 256, 64), [0, 256]);
        assert_eq!(
            rows(&[aged(prompt(0, 900), 3), prompt(1, 300)], 256, 64),
            [256, 0],
            "900 / 4 are fewer than 300"
        );
        assert_eq!(
            rows(&[aged(prompt(0, 300), 3), aged(prompt(1, 300), 3)], 256, 64),
            [256, 0],
            "equal ones by arrival"
        );
    }

    /// A machine whose steps take 10 ms and 1 ms a row, and what prompts get of a step beside one answer.
    fn beside_an_answer(goal: Goal, prompts: &[Candidate]) -> usize {
        let mut cost = Cost::default();
        for rows in [1, 2, 4, 8, 16, 32, 64, 128] {
            cost.note(Size { rows, depth: 100 }, Duration::from_millis(10 + rows as u64));
        }
        let all = [&[decoding(0)][..], prompts].concat();
        let policy = Policy { goal, ..Policy::default() };
        divide(&all, Room { rows: 512, selected: 64 }, 0, &cost, &policy).rows[1..].iter().sum()
    }

    #[test]
    fn prompts_take_the_time_between_tokens_that_a_goal_allows() {
        let goal = |text: &str| text.parse::<Goal>().expect("a goal");
        let long = [prompt(1, 2000)];
        let default = beside_an_answer(Goal::default(), &long);
        assert!((80..=90).contains(&default), "{default} rows in 100 ms");
        let brisk = beside_an_answer(goal("tbt=30"), &long);
        assert!((15..=20).contains(&brisk), "{brisk} rows in 30 ms");
        let least = beside_an_answer(goal("tbt=1"), &long);
        assert!((8..=12).contains(&least), "{least} rows in the time of a second answer");
    }

    #[test]
    fn a_first_token_that_comes_in_time_needs_no_more_rows() {
        let goal = "ttft=1000,tbt=100".parse().expect("a goal");
        let few = beside_an_answer("tbt=0".parse().expect("a goal"), &[prompt(1, 2000)]);
        assert_eq!(beside_an_answer(goal, &[prompt(1, 200)]), few, "half a second is enough");
        assert!(beside_an_answer(goal, &[prompt(1, 200), prompt(2, 400)]) > few);
        let late = Candidate { age: Duration::from_millis(900), ..prompt(1, 200) };
        assert!(beside_an_answer(goal, &[late]) > few);
    }

    #[test]
    fn answers_take_turns() {
        let candidates: Vec<_> = (0..7).map(decoding).collect();
        let (mut first, mut got) = (0, vec![0; 7]);
        for _ in 0..7 {
            let d = divide(
                &candidates,
                Room { rows: 64, selected: 3 },
                first,
                &Cost::default(),
                &Policy::default(),
            );
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
                age: Duration::from_millis(id * 700),
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
            let d = divide(&candidates, Room { rows, selected }, first, &Cost::default(), &Policy::default());
            let all: usize = d.rows.iter().sum();
            let with_logits: usize = candidates.iter().zip(&d.rows).map(|(c, &r)| c.selected(r)).sum();
            prop_assert!(all <= rows && with_logits <= selected, "{all} rows, {with_logits} with logits");
            prop_assert!(candidates.iter().zip(&d.rows).all(|(c, &r)| r <= c.most && (r == 0 || !c.rank.paused)));
            prop_assert!(all > 0 || candidates.iter().all(|c| c.rank.paused));
        }
    }
}
