//! The text that a request leaves in its slot.

use crate::models::LiveModel;
use std::sync::Arc;

/// Listens to a request's first answer, and leaves its text in a slot when the request has ended, however it did.
pub struct SlotTurn {
    live: Arc<LiveModel>,
    id: usize,
    tokens: Vec<u32>,
    lora: Option<Vec<(String, f32)>>,
}

impl SlotTurn {
    /// A request with this prompt; without an id the slot is chosen by its text.
    pub fn new(
        live: Arc<LiveModel>,
        id: Option<usize>,
        prompt: &[u32],
        lora: Option<Vec<(String, f32)>>,
    ) -> SlotTurn {
        let id = id.unwrap_or_else(|| live.slots.choose(prompt));
        SlotTurn { live, id, tokens: prompt.to_vec(), lora }
    }

    /// The next token of the first answer.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }
}

impl Drop for SlotTurn {
    fn drop(&mut self) {
        self.live.slots.put(self.id, std::mem::take(&mut self.tokens), self.lora.take());
    }
}
