//! Names of the beginnings of a request's text: two requests that begin alike have the same first names, whatever dialect they
//! are in. No tokenizer, template or model is needed.

use super::MOST_NAMES;
use serde_json::Value;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a piece.
pub const PIECE: usize = 128;
/// Bytes of a part beyond which it holds a file.
const LONG: usize = 4 << 10;

/// The names of a request, in order: each stands for all text up to the end of its piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestNames {
    /// A name for each whole piece.
    pub names: Vec<u128>,
    /// Bytes of the text.
    pub bytes: usize,
}

/// Text on its way to names.
struct TextNamer {
    out: RequestNames,
    last: u128,
    piece: Vec<u8>,
}

impl RequestNames {
    /// The names of a request's body; `salt` keeps apart who shares no cache. A body that is no object has none.
    pub fn of(body: &[u8], salt: &str) -> RequestNames {
        let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(body) else {
            return RequestNames::default();
        };
        let mut namer =
            TextNamer { out: RequestNames::default(), last: xxh3_128(salt.as_bytes()), piece: vec![] };
        // What decides how the text is computed is no text of the prompt, and is in all of its names.
        for field in ["model", "lora", "cache_salt", "compress", "chat_template_kwargs"] {
            if let Some(value) = body.get(field) {
                namer.last = named(namer.last, format!("{field}:{value}").as_bytes());
            }
        }
        if let Some(tools) = body.get("tools") {
            namer.add("tools", tools);
        }
        for field in ["system", "instructions"] {
            if let Some(text) = body.get(field) {
                namer.add("system", text);
            }
        }
        for field in ["images", "image_data"] {
            body.get(field).into_iter().for_each(|files| namer.other(files));
        }
        for field in ["messages", "input", "prompt", "content", "input_prefix", "query"] {
            if let Some(value) = body.get(field) {
                namer.conversation(value);
            }
        }
        namer.out
    }

    /// As bytes, integers in little endian: the bytes of the text, then names, as many as a replica is believed to hold.
    pub fn written(&self) -> Vec<u8> {
        let mut out = (self.bytes as u64).to_le_bytes().to_vec();
        self.names.iter().take(MOST_NAMES).for_each(|name| out.extend_from_slice(&name.to_le_bytes()));
        out
    }

    /// From bytes; none where they are none.
    pub fn read(bytes: &[u8]) -> Option<RequestNames> {
        let (length, names) = bytes.split_first_chunk::<8>()?;
        let (names, rest) = names.as_chunks::<16>();
        let whole = rest.is_empty() && names.len() <= MOST_NAMES;
        let names = whole.then(|| names.iter().map(|name| u128::from_le_bytes(*name)).collect())?;
        Some(RequestNames { names, bytes: usize::try_from(u64::from_le_bytes(*length)).ok()? })
    }

    /// Bytes behind the first `pieces` names.
    pub fn behind(&self, pieces: usize) -> usize {
        self.bytes - (pieces * PIECE).min(self.bytes)
    }
}

/// A name behind another one.
fn named(last: u128, piece: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&last.to_le_bytes());
    hash.update(piece);
    hash.digest128()
}

impl TextNamer {
    /// Messages one after another, or what stands in their place.
    fn conversation(&mut self, value: &Value) {
        match value {
            Value::Array(messages) => messages.iter().for_each(|message| match message.get("role") {
                Some(role) => {
                    self.add(role.as_str().unwrap_or("user"), message.get("content").unwrap_or(&Value::Null));
                    message.get("images").into_iter().for_each(|images| self.other(images));
                    if let Some(calls) = message.get("tool_calls") {
                        self.add("calls", calls);
                    }
                }
                None => self.add("user", message),
            }),
            other => self.add("user", other),
        }
    }

    /// A text, or the parts of one.
    fn add(&mut self, role: &str, value: &Value) {
        self.bytes(role.as_bytes());
        self.bytes(&[0]);
        match value {
            Value::String(text) => self.bytes(text.as_bytes()),
            Value::Array(parts) => {
                parts.iter().for_each(|part| match part.get("text").and_then(Value::as_str) {
                    Some(text) => self.bytes(text.as_bytes()),
                    None => self.other(part),
                })
            }
            Value::Null => {}
            other => self.bytes(other.to_string().as_bytes()),
        }
        self.bytes(&[0]);
    }

    /// A part that is no text. One with a file in it stands for few tokens, however long it is.
    fn other(&mut self, part: &Value) {
        let text = part.to_string();
        match text.len() > LONG {
            true => self.bytes(&xxh3_128(text.as_bytes()).to_le_bytes()),
            false => self.bytes(text.as_bytes()),
        }
    }

    fn bytes(&mut self, mut text: &[u8]) {
        self.out.bytes += text.len();
        while !text.is_empty() {
            let (now, then) = text.split_at(text.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            text = then;
            if self.piece.len() == PIECE {
                self.last = named(self.last, &self.piece);
                self.out.names.push(self.last);
                self.piece.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(body: Value) -> Vec<u128> {
        RequestNames::of(body.to_string().as_bytes(), "").names
    }

    #[test]
    fn turns_and_dialects_begin_alike() {
        let long = "word ".repeat(100);
        let first = json!({ "role": "user", "content": long });
        let one = names(json!({ "messages": [{ "role": "system", "content": "Be kind." }, first] }));
        let answer = json!({ "role": "assistant", "content": "Yes." });
        let two =
            names(json!({ "messages": [{ "role": "system", "content": "Be kind." }, first, answer, first] }));
        let parts = json!([{ "type": "text", "text": long }]);
        let anthropic = json!({ "system": "Be kind.", "messages": [{ "role": "user", "content": parts }] });
        assert!(one.len() >= 4 && two.starts_with(&one[..one.len() - 1]) && two.len() > one.len());
        assert_eq!(names(anthropic), one);
    }

    #[test]
    fn what_differs_has_other_names() {
        let text = "word ".repeat(100);
        let one = names(json!({ "prompt": text }));
        assert_ne!(names(json!({ "prompt": text, "model": "b" }))[0], one[0]);
        assert_ne!(names(json!({ "prompt": text, "lora": [] }))[0], one[0]);
        assert_ne!(RequestNames::of(json!({ "prompt": text }).to_string().as_bytes(), "b").names[0], one[0]);
        let seen = |data: &str| {
            let url = format!("data:;base64,{}", data.repeat(5000));
            let part = json!({ "type": "image_url", "image_url": { "url": url } });
            names(
                json!({ "messages": [{ "role": "user", "content": [part, { "type": "text", "text": text }] }] }),
            )
        };
        assert!(seen("a").len() < 5 && seen("a")[0] == seen("a")[0] && seen("a")[0] != seen("b")[0]);
        let late = names(json!({ "prompt": format!("{text}x{text}") }));
        assert_eq!(late[..2], one[..2]);
        assert!(names(json!([1])).is_empty() && RequestNames::of(b"{", "").names.is_empty());
    }
}
