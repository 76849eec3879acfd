//! The bytes of a stream: server-sent events, or lines of JSON.

use serde::Serialize;

/// Frames of a stream that are not written yet.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// An event without a name: `data: ..`.
    pub fn data(&mut self, value: &impl Serialize) {
        self.bytes.extend_from_slice(b"data: ");
        self.json(value);
        self.bytes.extend_from_slice(b"\n\n");
    }

    /// An event with a name.
    pub fn event(&mut self, name: &str, value: &impl Serialize) {
        self.raw("event: ");
        self.raw(name);
        self.raw("\n");
        self.data(value);
    }

    /// A line of JSON.
    pub fn line(&mut self, value: &impl Serialize) {
        self.json(value);
        self.bytes.push(b'\n');
    }

    /// A line that readers of events skip.
    pub fn comment(&mut self, text: &str) {
        self.raw(": ");
        self.raw(text);
        self.raw("\n\n");
    }

    /// Bytes as they are.
    pub fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Takes what there is.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Bytes that are not written yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn json(&mut self, value: &impl Serialize) {
        // Values of this crate always become JSON: their keys are texts.
        _ = serde_json::to_writer(&mut self.bytes, value);
    }
}
