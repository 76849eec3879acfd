//! The text of one request with the steps that made it: what the reader of a page follows.

use super::{median, step_ns};
use crate::trace::Trace;

/// A token of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripToken {
    /// Its id.
    pub id: u32,
    /// It was given.
    pub prompt: bool,
    /// Its row among the chosen tokens; none for a prompt, and where choices were not recorded.
    pub event: Option<usize>,
}

/// A step in which the request had rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripStep {
    /// Row among the steps.
    pub row: usize,
    /// It computed rows of the prompt.
    pub prompt: bool,
    /// Rows of the request in it.
    pub rows: u32,
    /// Tokens before them.
    pub start: u32,
    /// Guesses in it, and those that were right.
    pub drafts: (u32, u32),
    /// Nanoseconds of the whole step.
    pub ns: u64,
    /// Places in the text of the tokens that were chosen in it: first and behind the last.
    pub chosen: (usize, usize),
}

/// The text of the first request, and its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextStrip {
    /// Its sequence; none where it was not recognized.
    pub sequence: Option<u64>,
    /// Prompt and answer.
    pub tokens: Vec<StripToken>,
    /// Its steps in order.
    pub steps: Vec<StripStep>,
    /// Prompt tokens found in memory or on disk.
    pub cached: u32,
    /// Row of its first step with a prompt.
    pub first_prompt: Option<usize>,
    /// Row of the step with one row whose time is in the middle.
    pub middle_decode: Option<usize>,
}

impl TextStrip {
    /// Of the first request, or of the sequence that began first where no request is known.
    pub fn of(trace: &Trace) -> TextStrip {
        let s = &trace.events.sequence;
        let request = trace.requests.first();
        let begun = || s.what.iter().position(|w| w == "begin").map(|i| s.sequence[i]);
        let sequence = request.and_then(|r| r.sequence).or_else(begun);
        let mut tokens: Vec<_> = request
            .iter()
            .flat_map(|r| r.prompt.iter().map(|&id| StripToken { id, prompt: true, event: None }))
            .collect();
        let t = &trace.events.token;
        let chosen: Vec<usize> = (0..t.id.len()).filter(|&i| Some(t.sequence[i]) == sequence).collect();
        let first_answer = tokens.len();
        let seen = |&i: &usize| StripToken { id: t.id[i], prompt: false, event: Some(i) };
        let told = request.iter().flat_map(|r| r.answer.iter());
        match chosen.is_empty() {
            true => tokens.extend(told.map(|&id| StripToken { id, prompt: false, event: None })),
            false => tokens.extend(chosen.iter().map(seen)),
        }
        let steps = steps(trace, sequence, first_answer, tokens.len());
        let begin = (0..s.at.len()).find(|&i| s.what[i] == "begin" && Some(s.sequence[i]) == sequence);
        let first_prompt = steps.iter().find(|step| step.prompt).map(|step| step.row);
        TextStrip {
            sequence,
            cached: begin.map_or(0, |i| s.cached[i]),
            first_prompt,
            middle_decode: middle(trace, &steps),
            tokens,
            steps,
        }
    }

    /// Tokens of the prompt.
    pub fn prompt_len(&self) -> usize {
        self.tokens.iter().filter(|t| t.prompt).count()
    }

    /// The step that chose the token at this place.
    pub fn step_of(&self, place: usize) -> Option<&StripStep> {
        self.steps.iter().find(|s| s.chosen.0 <= place && place < s.chosen.1)
    }
}

/// The steps of a sequence, each with the tokens that were chosen in it.
fn steps(trace: &Trace, sequence: Option<u64>, first_answer: usize, end: usize) -> Vec<StripStep> {
    let (share, step) = (&trace.events.share, &trace.events.step);
    let mut next = first_answer;
    let mut all = vec![];
    for i in (0..share.step.len()).filter(|&i| Some(share.sequence[i]) == sequence) {
        let Ok(row) = step.step.binary_search(&share.step[i]) else { continue };
        let chosen = if share.left[i] == 0 { 1 + share.accepted[i] as usize } else { 0 };
        let until = (next + chosen).min(end);
        all.push(StripStep {
            row,
            prompt: (share.start[i] as usize) < first_answer.saturating_sub(1) || share.rows[i] > 1,
            rows: share.rows[i],
            start: share.start[i],
            drafts: (share.drafts[i], share.accepted[i]),
            ns: step_ns(trace, row),
            chosen: (next, until),
        });
        next = until;
    }
    all
}

/// The step of one row whose time is in the middle.
fn middle(trace: &Trace, steps: &[StripStep]) -> Option<usize> {
    let s = &trace.events.step;
    let alone = |step: &&StripStep| s.decode_rows[step.row] == 1 && s.prompt_rows[step.row] == 0;
    let decode: Vec<&StripStep> = match steps.iter().filter(alone).count() {
        0 => steps.iter().filter(|step| !step.prompt).collect(),
        _ => steps.iter().filter(alone).collect(),
    };
    let middle = median(decode.iter().map(|step| step.ns).collect())?;
    decode.iter().find(|step| step.ns == middle).map(|step| step.row)
}
