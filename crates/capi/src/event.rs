//! What a request brings, as C reads it.

use crate::guard::{Result, invalid};
use lamina_serve::{AnswerDelta, ChosenToken, DeltaPart, DetailedDelta, Ended, TokenUsage};
use serde_json::Value;
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// What an event brings. Numbers never change their meaning; a reader passes over those that it does not know.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaminaEventKind {
    /// Text of an answer.
    Text = 0,
    /// Reasoning before an answer.
    Reasoning = 1,
    /// A call of a tool begins: `details` has its `id` and its `name`.
    ToolCall = 2,
    /// A piece of the call's arguments, which are JSON as a whole.
    ToolArguments = 3,
    /// How likely the prompt's tokens were, where `echo` and `logprobs` ask for that: in `details`.
    Prompt = 4,
    /// How much of the prompt is computed, where that was asked for: in `details`.
    Progress = 5,
    /// An answer has ended: `finish` says why, `details` where its time went.
    End = 6,
}

/// What a request brings. Set `size` before each call: a library writes no further than that.
#[repr(C)]
pub struct LaminaEvent {
    /// `sizeof(LaminaEvent)` of the caller.
    pub size: u32,
    /// What it brings.
    pub kind: LaminaEventKind,
    /// Which of the answers: those to prompt `p` are `p * n` to `p * n + n - 1`.
    pub index: u32,
    /// Which of the answer's tool calls, where it belongs to one.
    pub call: u32,
    /// Whole characters of UTF-8, with a zero byte behind them; valid, like all pointers here, until the next call of
    /// `lamina_request_next` on this request.
    pub text: *const c_char,
    /// Bytes of the text.
    pub text_len: usize,
    /// The tokens that it came with.
    pub tokens: *const u32,
    /// Natural logarithm of the probability of each; NULL where `logprobs` does not ask for them.
    pub logprobs: *const f32,
    /// Tokens.
    pub token_count: usize,
    /// At an end `"stop"`, `"length"`, `"tool_calls"` or `"cancelled"`, otherwise NULL. Static.
    pub finish: *const c_char,
    /// An object of JSON with what has no field here, or NULL.
    pub details: *const c_char,
    /// At an end: tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, found in the cache.
    pub cached_tokens: u32,
    /// At an end: tokens of the answer.
    pub completion_tokens: u32,
    /// Of these, reasoning.
    pub reasoning_tokens: u32,
}

/// The first event of this struct's form ended here: shorter ones are no events.
const LEAST: usize = std::mem::offset_of!(LaminaEvent, tokens);

/// What the pointers of the last event point to.
#[derive(Default)]
pub struct EventMemory {
    text: CString,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    details: Option<CString>,
}

/// Whether a caller's event has a size that can be written.
///
/// # Errors
/// When it is NULL or has none.
///
/// # Safety
/// It is NULL, or its `size` may be read.
pub unsafe fn check_event(event: *mut LaminaEvent) -> Result<()> {
    if event.is_null() {
        return Err(invalid("event is NULL: there is no place for the result"));
    }
    // SAFETY: not NULL, so its size may be read, says the caller. Its kind may be no value yet: nothing else is.
    let size = unsafe { (&raw const (*event).size).read() } as usize;
    match size < LEAST {
        true => Err(invalid(format!("event->size is {size}: set it to sizeof(LaminaEvent) before the call"))),
        false => Ok(()),
    }
}

impl EventMemory {
    /// Writes a piece of an answer as an event.
    ///
    /// # Safety
    /// The event has passed [`check_event`], and may be written for its size.
    pub unsafe fn write(&mut self, (delta, details): DetailedDelta, event: *mut LaminaEvent) {
        // SAFETY: it may be read, since the event was checked.
        let size = unsafe { (&raw const (*event).size).read() };
        let bytes = (size as usize).min(size_of::<LaminaEvent>());
        let whole = LaminaEvent { size, ..self.event(delta, details) };
        // SAFETY: no more than the caller's struct has, and no more than there is.
        unsafe { ptr::copy_nonoverlapping((&raw const whole).cast::<u8>(), event.cast(), bytes) };
    }

    /// The event of a piece, which points to what is kept here.
    fn event(&mut self, delta: AnswerDelta, details: Option<Value>) -> LaminaEvent {
        let (kind, call, text) = parts(&delta.part);
        self.keep(text, &delta.tokens, details);
        let (finish, usage) = match &delta.part {
            DeltaPart::End(end) => (finish(&end.why).as_ptr(), end.usage),
            _ => (ptr::null(), TokenUsage::default()),
        };
        LaminaEvent {
            size: 0,
            kind,
            index: delta.choice as u32,
            call: call as u32,
            text: self.text.as_ptr(),
            text_len: self.text.count_bytes(),
            tokens: self.tokens.as_ptr(),
            logprobs: if self.logprobs.is_empty() { ptr::null() } else { self.logprobs.as_ptr() },
            token_count: self.tokens.len(),
            finish,
            details: self.details.as_ref().map_or(ptr::null(), |details| details.as_ptr()),
            prompt_tokens: usage.prompt as u32,
            cached_tokens: usage.cached as u32,
            completion_tokens: usage.completion as u32,
            reasoning_tokens: usage.reasoning as u32,
        }
    }

    fn keep(&mut self, text: &str, tokens: &[ChosenToken], details: Option<Value>) {
        // No model writes it, and C would see the end of the text.
        self.text = CString::new(text.replace('\0', "")).unwrap_or_default();
        self.tokens = tokens.iter().map(|token| token.id).collect();
        self.logprobs = tokens.iter().filter_map(|token| token.logprob).collect();
        if self.logprobs.len() < self.tokens.len() {
            self.logprobs.clear();
        }
        self.details = details.and_then(|details| CString::new(details.to_string()).ok());
    }
}

/// Kind, number of the call, and text of a part.
fn parts(part: &DeltaPart) -> (LaminaEventKind, usize, &str) {
    use LaminaEventKind as Kind;
    match part {
        DeltaPart::Text(text) => (Kind::Text, 0, text),
        DeltaPart::Reasoning(text) => (Kind::Reasoning, 0, text),
        DeltaPart::ToolStart { call, name, .. } => (Kind::ToolCall, *call, name),
        DeltaPart::ToolArguments { call, json } => (Kind::ToolArguments, *call, json),
        DeltaPart::Prompt { .. } => (Kind::Prompt, 0, ""),
        DeltaPart::Progress { .. } => (Kind::Progress, 0, ""),
        DeltaPart::End(_) => (Kind::End, 0, ""),
    }
}

fn finish(why: &Ended) -> &'static CStr {
    match why {
        Ended::Token(_) | Ended::Text(_) => c"stop",
        Ended::ToolCalls => c"tool_calls",
        Ended::MaxTokens | Ended::Context | Ended::Deadline => c"length",
        Ended::Cancelled => c"cancelled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> DetailedDelta {
        let token = |id| ChosenToken { id, logprob: Some(-0.5), top: vec![] };
        (
            AnswerDelta { choice: 1, part: DeltaPart::Text(text.into()), tokens: vec![token(7), token(8)] },
            None,
        )
    }

    /// A caller that was built with an older header has less room.
    #[test]
    fn no_byte_is_written_behind_the_size_that_the_caller_said() {
        const ROOM: usize = size_of::<LaminaEvent>() + 64;
        for size in [0, LEAST - 1, LEAST, LEAST + 8, size_of::<LaminaEvent>(), ROOM] {
            // Aligned as the struct is.
            let mut room = [u64::MAX; ROOM / 8];
            let event = room.as_mut_ptr().cast::<LaminaEvent>();
            // SAFETY: there is room for the whole struct.
            unsafe { (&raw mut (*event).size).write(size as u32) };
            // SAFETY: its size was just written.
            let checked = unsafe { check_event(event) };
            assert_eq!(checked.is_ok(), size >= LEAST, "{size}");
            if checked.is_err() {
                continue;
            }
            let mut memory = EventMemory::default();
            // SAFETY: it was checked, and has room for its size.
            unsafe { memory.write(piece("Grüße"), event) };
            // SAFETY: numbers have no wrong bytes.
            let bytes: [u8; ROOM] = unsafe { std::mem::transmute(room) };
            assert!(bytes[size.min(size_of::<LaminaEvent>())..].iter().all(|&b| b == 255), "{size}");
            // SAFETY: the text was written, and the memory lives.
            let text = unsafe { CStr::from_ptr((&raw const (*event).text).read()) };
            assert_eq!(text.to_str(), Ok("Grüße"));
        }
    }
}
