//! Rows of pictures in a sequence's prompt: which of them come together, and which are still to come.

use super::Sequence;
use crate::request::numbers;

impl Sequence {
    /// Fewer of its next rows are of no use: those of a picture that see one another come in one step.
    pub fn least_rows(&self) -> usize {
        numbers::together(self.computed, &self.rows).map_or(1, |places| places.end - self.computed)
    }

    /// How many of its next `rows` rows have what they start from, in turn: rows of pictures may still be made.
    pub fn come(&self, rows: usize) -> usize {
        if self.rows.is_empty() { rows } else { numbers::come(self.next_place(), rows, &self.rows) }
    }

    /// Asks for rows of pictures that it comes to, and takes those that are there.
    pub fn ask_rows(&mut self) {
        let knows = self.begun && self.held.awaits.is_none() && !self.rows.is_empty();
        if let Some(Err(e)) = knows.then(|| numbers::ask(self.computed, &self.rows)) {
            self.fault = Some(e);
        }
    }

    /// How many of its next `rows` rows a step can have.
    pub fn uncut(&self, rows: usize) -> usize {
        if self.rows.is_empty() { rows } else { numbers::uncut(self.computed, rows, &self.rows) }
    }
}
