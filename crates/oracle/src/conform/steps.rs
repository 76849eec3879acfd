//! Ways to cut the same sequences into steps, and where their memory is.

use lamina_plan::{
    Plan,
    backend::Limits,
    batch::SeqPlace,
    kv::{KvType, PAGE_LEN},
};
use std::sync::Arc;

/// Steps of a schedule: which sequences take part, with how many rows each.
pub type Steps = Vec<Vec<(usize, usize)>>;

/// Pages and states of every machine: a few more than any case needs.
pub const PAGES: usize = 48;
/// Recurrent states of every machine.
pub const STATES: usize = 8;

/// What every machine is built for, with a float32 cache.
pub fn limits(plan: &Plan, rows: usize) -> Limits {
    let groups = plan.kv.groups.len();
    let kv = vec![KvType::F32.into(); groups];
    Limits { rows, selected: rows, logits: rows, pages: vec![PAGES; groups], states: STATES, kv }
}

/// All ways, with what differs by them; the first one is what the others are held against.
#[allow(clippy::type_complexity)] // a table of names and functions
pub const SCHEDULES: &[(&str, fn(&[usize]) -> Steps)] = &[
    ("nothing", alone),
    ("other sequences in the batch", together),
    ("the size of steps", |lengths| chunked(lengths, &[7, 1, 32, 20])),
    ("being generated token by token", |lengths| chunked(lengths, &[1])),
    ("a long chunk before", |lengths| chunked(lengths, &[most(lengths), 3, 1])),
];

/// The ways in which the sequences of `plan` may be cut: where rows see later ones, not at all.
#[allow(clippy::type_complexity)] // as above
pub fn schedules(plan: &Plan) -> &'static [(&'static str, fn(&[usize]) -> Steps)] {
    if plan.looks_ahead() { &SCHEDULES[..2] } else { SCHEDULES }
}

/// Every sequence in a step of its own.
fn alone(lengths: &[usize]) -> Steps {
    lengths.iter().enumerate().map(|(s, &n)| vec![(s, n)]).collect()
}

/// All sequences in one step.
fn together(lengths: &[usize]) -> Steps {
    vec![lengths.iter().copied().enumerate().collect()]
}

/// A chunk that leaves little of the longest sequence, and nothing of a short one.
fn most(lengths: &[usize]) -> usize {
    lengths.iter().fold(64, |most, n| most.max(n.saturating_sub(50)))
}

/// All sequences side by side, in pieces of these sizes in turn.
fn chunked(lengths: &[usize], sizes: &[usize]) -> Steps {
    let mut left = lengths.to_vec();
    let mut steps = vec![];
    for &size in sizes.iter().cycle() {
        let step: Vec<_> =
            left.iter().enumerate().filter(|(_, n)| **n > 0).map(|(s, &n)| (s, n.min(size))).collect();
        if step.is_empty() {
            return steps;
        }
        step.iter().for_each(|&(s, n)| left[s] -= n);
        steps.push(step);
    }
    steps
}

/// Scattered pages for sequence `s` of `lengths`, the same in each of `groups`; no two sequences share one.
pub fn pages(lengths: &[usize], s: usize, groups: usize) -> SeqPlace {
    let before: usize = lengths[..s].iter().map(|n| n.div_ceil(PAGE_LEN)).sum();
    // 29 has no factor in common with the number of pages, so that each logical page has its own place.
    let place = |logical: usize| ((before + logical) * 29 + 5) % PAGES;
    let pages: Vec<u32> = (0..lengths[s].div_ceil(PAGE_LEN)).map(|p| place(p) as u32).collect();
    let (state, prompt_len) = (((s * 3 + 1) % STATES) as u32, lengths[s] as u32);
    SeqPlace { pages: vec![pages; groups], state, prompt_len, lora: scales(s), ..SeqPlace::default() }
}

/// Scales of the adapters of sequence `s`: none, one, the other, both.
fn scales(s: usize) -> Arc<[f32]> {
    const SCALES: [&[f32]; 4] = [&[], &[0.7], &[0.0, -1.3], &[0.5, 2.0]];
    SCALES[s % SCALES.len()].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_runs_every_row_once() {
        let lengths = [1, 2, 7, 64, 300];
        for (name, schedule) in SCHEDULES {
            let mut rows = [0; 5];
            schedule(&lengths).into_iter().flatten().for_each(|(s, n)| rows[s] += n);
            assert_eq!(rows, lengths, "{name}");
        }
    }

    #[test]
    fn sequences_share_no_page() {
        let lengths = [300, 33, 64];
        let mut all: Vec<u32> = (0..3).flat_map(|s| pages(&lengths, s, 1).pages.remove(0)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
