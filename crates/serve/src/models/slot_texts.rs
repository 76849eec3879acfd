//! What llama-server's slots are here: each remembers the text that a request left, so that it can be saved and restored.
//!
//! Computed beginnings are shared by all requests and found by their content: a slot holds tokens alone, and no memory of
//! the cache. Which slot a request without `id_slot` takes follows llama-server: the one that begins most alike, else the
//! one that was used longest ago.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The text of a slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotText {
    /// Tokens of the prompt and of its first answer.
    pub tokens: Vec<u32>,
    /// Adapters that computed it; none: the usual ones.
    pub lora: Option<Vec<(String, f32)>>,
    /// When it was used, counted in uses.
    used: u64,
}

/// The slots of a model.
#[derive(Debug)]
pub struct SlotTexts(Mutex<Vec<SlotText>>);

impl SlotTexts {
    /// So many empty slots.
    pub fn new(count: usize) -> SlotTexts {
        SlotTexts(Mutex::new(vec![SlotText::default(); count]))
    }

    /// The slot of a request with this prompt that names none.
    pub fn choose(&self, prompt: &[u32]) -> usize {
        let texts = self.texts();
        let alike = |text: &SlotText| text.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // A token or two in common (the one that begins every text) says nothing.
        let likeness = |text: &SlotText| if alike(text) * 2 > text.tokens.len() { alike(text) } else { 0 };
        let order = |&at: &usize| (std::cmp::Reverse(likeness(&texts[at])), texts[at].used, at);
        (0..texts.len()).min_by_key(order).unwrap_or(0)
    }

    /// A copy of the text of slot `id`; none where there is no such slot.
    pub fn text(&self, id: usize) -> Option<SlotText> {
        self.texts().get(id).cloned()
    }

    /// Puts a text into slot `id`; no text where it is cleared. Returns what was there.
    pub fn put(&self, id: usize, tokens: Vec<u32>, lora: Option<Vec<(String, f32)>>) -> SlotText {
        let mut texts = self.texts();
        let used = texts.iter().map(|t| t.used).max().unwrap_or(0) + 1;
        let new = SlotText { tokens, lora, used };
        texts.get_mut(id).map(|text| std::mem::replace(text, new)).unwrap_or_default()
    }

    fn texts(&self) -> MutexGuard<'_, Vec<SlotText>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_goes_to_the_slot_that_begins_like_it() {
        let slots = SlotTexts::new(3);
        assert_eq!(slots.choose(&[1, 2, 3]), 0);
        slots.put(0, vec![1, 2, 3, 4], None);
        assert_eq!(slots.choose(&[1, 2, 3, 4, 5]), 0);
        assert_eq!(slots.choose(&[1, 7, 7, 7]), 1, "one token alike is none");
        slots.put(1, vec![1, 7], None);
        slots.put(2, vec![9], None);
        assert_eq!(slots.choose(&[5]), 0, "the one that was used longest ago");
        slots.put(0, vec![5], None);
        assert_eq!(slots.choose(&[6]), 1);
        assert_eq!(slots.text(3), None);
    }
}
