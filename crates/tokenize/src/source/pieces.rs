//! How the tokens of a `tokenizer.json` are spelled, read from its `decoder`: what each token adds to a text, alone.

use serde_json::Value;

use crate::byte_level;
use crate::tokenizer::Lead;
use crate::vocab::byte_of_text;

/// The spelling of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    alphabet: PieceAlphabet,
    /// Tokens like `<0x0A>` are bytes.
    pub byte_tokens: bool,
    pub lead: Lead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PieceAlphabet {
    /// Bytes in the GPT-2 alphabet.
    ByteLevel,
    /// This string stands for a space.
    Space(String),
    /// Tokens without this prefix begin a word.
    Continuing(String),
    /// Tokens with this suffix end a word.
    EndOfWord(String),
    /// Texts are as they are.
    Plain,
}

impl Spelling {
    /// From the `decoder` of a `tokenizer.json`; None for one of a kind unknown here.
    pub fn of_decoder(decoder: &Value) -> Option<Spelling> {
        let mut spelling = Spelling::plain();
        if decoder.is_null() {
            return Some(spelling);
        }
        match decoder.get("decoders").and_then(Value::as_array) {
            Some(steps) => steps.iter().try_for_each(|step| spelling.step(step))?,
            None => spelling.step(decoder)?,
        }
        Some(spelling)
    }

    /// Texts are as they are.
    pub fn plain() -> Spelling {
        Spelling { alphabet: PieceAlphabet::Plain, byte_tokens: false, lead: Lead::Keep }
    }

    fn step(&mut self, step: &Value) -> Option<()> {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        match text("type")? {
            "ByteLevel" => self.alphabet = PieceAlphabet::ByteLevel,
            "ByteFallback" => self.byte_tokens = true,
            "Fuse" => {}
            "Metaspace" => {
                self.alphabet = PieceAlphabet::Space(text("replacement").unwrap_or("\u{2581}").to_owned());
                let never = text("prepend_scheme") == Some("never")
                    || step.get("add_prefix_space").and_then(Value::as_bool) == Some(false);
                self.lead = if never { Lead::Keep } else { Lead::DropOne };
            }
            "Replace" => {
                let from = step.get("pattern")?.get("String")?.as_str()?;
                (text("content")? == " ").then(|| self.alphabet = PieceAlphabet::Space(from.to_owned()))?;
            }
            // The space that the encoder put before the first word.
            "Strip" => {
                let first =
                    step.get("start").and_then(Value::as_u64) == Some(1) && text("content") == Some(" ");
                first.then(|| self.lead = Lead::DropOne)?;
            }
            "WordPiece" => {
                self.alphabet = PieceAlphabet::Continuing(text("prefix").unwrap_or("##").to_owned());
                self.lead = Lead::DropOne;
            }
            "BPEDecoder" => {
                self.alphabet = PieceAlphabet::EndOfWord(text("suffix").unwrap_or("</w>").to_owned())
            }
            _ => return None,
        }
        Some(())
    }

    /// What an ordinary token adds to a text.
    pub fn bytes(&self, text: &str) -> Vec<u8> {
        if self.byte_tokens
            && let Some(byte) = byte_of_text(text)
        {
            return vec![byte];
        }
        match &self.alphabet {
            PieceAlphabet::ByteLevel => byte_level::decode(text).unwrap_or_else(|| text.as_bytes().to_vec()),
            PieceAlphabet::Space(space) => text.replace(space.as_str(), " ").into_bytes(),
            PieceAlphabet::Continuing(prefix) => match text.strip_prefix(prefix.as_str()) {
                Some(rest) => rest.as_bytes().to_vec(),
                None => format!(" {text}").into_bytes(),
            },
            PieceAlphabet::EndOfWord(suffix) => text.replace(suffix.as_str(), " ").into_bytes(),
            PieceAlphabet::Plain => text.as_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spelled(decoder: Value, tokens: &[&str]) -> (String, Lead) {
        let spelling = Spelling::of_decoder(&decoder).unwrap();
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| spelling.bytes(token)).collect();
        (String::from_utf8(bytes).unwrap(), spelling.lead)
    }

    #[test]
    fn each_decoder_has_its_spelling() {
        let replace = json!({ "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " });
        let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
        let llama = json!({ "type": "Sequence", "decoders": [replace, { "type": "ByteFallback" }, { "type": "Fuse" }, strip] });
        assert_eq!(spelled(llama, &["\u{2581}a", "<0xC3>", "<0xA9>"]), (" a\u{e9}".into(), Lead::DropOne));
        let bytes = json!({ "type": "ByteLevel" });
        assert_eq!(
            spelled(bytes, &["\u{120}a", "\u{c3}", "\u{a9}", "< >"]),
            (" a\u{e9}< >".into(), Lead::Keep)
        );
        let metaspace = json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": "always" });
        assert_eq!(spelled(metaspace, &["_a", "b"]), (" ab".into(), Lead::DropOne));
        let never = json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": "never" });
        assert_eq!(spelled(never, &["_a"]).1, Lead::Keep);
        let pieces = json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
        assert_eq!(spelled(pieces, &["un", "##done", "it"]), (" undone it".into(), Lead::DropOne));
        let suffix = json!({ "type": "BPEDecoder", "suffix": "</w>" });
        assert_eq!(spelled(suffix, &["un", "done</w>", "it"]), ("undone it".into(), Lead::Keep));
        assert_eq!(spelled(Value::Null, &["a", "b"]), ("ab".into(), Lead::Keep));
        assert!(Spelling::of_decoder(&json!({ "type": "CTC" })).is_none());
    }
}
