//! The step that all launches belong to: sequences with all that a step table can say of one.

use super::launch::GoldenCase;
use crate::step::StepWords;
use lamina_plan::{Batch, EMPTY, Input, Select, SeqPlace, View, Wants};

/// Rows of the step, of them those that are selected, of them those that want logits.
pub(super) const ROWS: usize = 70;
pub(super) const SELECTED: usize = 18;
pub(super) const LOGITS: usize = 4;
/// Sequences, pages and states.
pub(super) const SEQS: usize = 3;
pub(super) const PAGES: usize = 10;
pub(super) const STATES: usize = 4;
/// Numbers beside each row.
pub(super) const FEATURES: usize = 91;
/// Numbers of a row that is no token, and rows of the table that tokens and positions name.
pub(super) const EMBEDDING: usize = 512;
pub(super) const VOCABULARY: usize = 144;

/// The words of the step table.
pub(super) struct GoldenStep(Vec<u32>);

impl GoldenStep {
    /// A prompt that is read in chunks, with adapters; a picture whose cells lie scattered; one token.
    pub fn new() -> GoldenStep {
        let mut b = Batch::default();
        let tokens: Vec<u32> = (0..61).map(|i| i * 37 % VOCABULARY as u32).collect();
        let prompt = SeqPlace {
            pages: vec![vec![9, 2, 7, 0, 5]],
            state: 1,
            prompt_len: 136,
            lora: [0.5, 0.0, -1.5].into(),
            ..SeqPlace::default()
        };
        let last = |rows| Wants { rows, logits: Select::Last };
        b.push(&tokens, 75, prompt, last(Select::Tail(9)));
        picture(&mut b);
        let token = SeqPlace {
            pages: vec![vec![1, 8]],
            state: 3,
            prompt_len: 41,
            lora: [0.0, 2.0].into(),
            ..SeqPlace::default()
        };
        b.push(&[17], 40, token, Select::Last);
        let mut numbers = GoldenCase::new("step");
        b.numbers = numbers.numbers(2 * EMBEDDING, -1.0, 1.0);
        b.features = numbers.numbers(ROWS * FEATURES, -1.0, 1.0);
        let mut words = StepWords::default();
        GoldenStep(words.of(&b, 1).to_vec())
    }

    /// A launch of a kernel whose first operand is the step table.
    pub fn kernel(&self, kernel: &'static str) -> GoldenCase {
        GoldenCase::new(kernel).words(&self.0)
    }
}

/// Twelve tokens in 24 cells, the last eight of them rows of the step, of which the second half is segment 1.
fn picture(b: &mut Batch) {
    let cell = |token: u32| (token * 5 + 3) % 24;
    let mut map = [EMPTY; 24];
    (0..12).for_each(|token| map[cell(token) as usize] = token);
    let input = |i: u32| if i % 3 == 1 { Input::Row(i % 2) } else { Input::Token(100 + i) };
    let rows = (0..8).map(|i| (input(i), [4 + i, 2 * i, 60 - 7 * i], cell(4 + i)));
    let place = SeqPlace {
        pages: vec![vec![4]],
        state: 2,
        next_state: Some(0),
        prompt_len: 8,
        view: View::Mapped(map.into()),
        ..SeqPlace::default()
    };
    b.push_rows(rows, place, Wants { rows: Select::All, logits: Select::Tail(2) });
    b.split_last(4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_has_the_rows_that_launches_count_on() {
        let GoldenStep(words) = GoldenStep::new();
        assert_eq!(words[..4], [ROWS, SELECTED, LOGITS, SEQS].map(|n| n as u32));
    }
}
