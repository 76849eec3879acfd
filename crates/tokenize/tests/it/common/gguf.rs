//! The metadata of a GGUF file as a `GgufVocab`. Files of the shared folder only: it panics on damage.

use std::collections::HashMap;
use std::path::Path;

use lamina_tokenize::{ChatTemplateSource, GgufVocab, InfillIds};

#[derive(Debug)]
enum Value {
    Number(u64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Floats(Vec<f32>),
    Numbers(Vec<u64>),
    Other,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn text(&mut self) -> String {
        let length = self.u64() as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn number(&mut self, kind: u32) -> u64 {
        let width = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][kind as usize];
        self.take(width).iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn value(&mut self, kind: u32) -> Value {
        match kind {
            7 => Value::Bool(self.number(7) != 0),
            8 => Value::Text(self.text()),
            9 => {
                let (kind, count) = (self.u32(), self.u64());
                match kind {
                    8 => Value::Texts((0..count).map(|_| self.text()).collect()),
                    6 => Value::Floats((0..count).map(|_| f32::from_bits(self.u32())).collect()),
                    9 => panic!("nested arrays are not needed here"),
                    _ => Value::Numbers((0..count).map(|_| self.number(kind)).collect()),
                }
            }
            6 | 12 => {
                self.number(kind);
                Value::Other
            }
            _ => Value::Number(self.number(kind)),
        }
    }
}

pub fn vocab(path: impl AsRef<Path>) -> GgufVocab {
    let bytes = super::read(path);
    let mut reader = Reader(&bytes);
    assert_eq!(reader.take(4), b"GGUF");
    assert_eq!(reader.u32(), 3);
    reader.u64();
    let count = reader.u64();
    let mut map = HashMap::new();
    for _ in 0..count {
        let key = reader.text();
        let kind = reader.u32();
        map.insert(key, reader.value(kind));
    }
    build(map)
}

fn build(mut map: HashMap<String, Value>) -> GgufVocab {
    let mut chat_templates = Vec::new();
    for (key, value) in &map {
        if let (Some(name), Value::Text(source)) = (key.strip_prefix("tokenizer.chat_template"), value) {
            let name = name.strip_prefix('.').unwrap_or("default").to_owned();
            chat_templates.push(ChatTemplateSource { name, source: source.clone() });
        }
    }
    let mut take = |key: &str| map.remove(&format!("tokenizer.ggml.{key}"));
    fn number(value: Option<Value>) -> Option<u32> {
        value.map(|v| if let Value::Number(n) = v { n as u32 } else { panic!("{v:?}") })
    }
    fn flag(value: Option<Value>) -> Option<bool> {
        value.map(|v| if let Value::Bool(b) = v { b } else { panic!("{v:?}") })
    }
    fn text(value: Option<Value>) -> Option<String> {
        value.map(|v| if let Value::Text(t) = v { t } else { panic!("{v:?}") })
    }
    fn texts(value: Option<Value>) -> Option<Vec<String>> {
        value.map(|v| if let Value::Texts(t) = v { t } else { panic!("{v:?}") })
    }
    fn numbers(value: Option<Value>) -> Option<Vec<u64>> {
        value.map(|v| if let Value::Numbers(t) = v { t } else { panic!("{v:?}") })
    }
    GgufVocab {
        model: text(take("model")).unwrap(),
        pre: text(take("pre")),
        tokens: texts(take("tokens")).unwrap(),
        scores: take("scores").map(|v| if let Value::Floats(f) = v { f } else { panic!("{v:?}") }),
        token_types: numbers(take("token_type")).map(|types| types.into_iter().map(|t| t as i32).collect()),
        merges: texts(take("merges")),
        bos: number(take("bos_token_id")),
        eos: number(take("eos_token_id")),
        eot: number(take("eot_token_id")),
        eom: number(take("eom_token_id")),
        unknown: number(take("unknown_token_id")),
        separator: number(take("seperator_token_id")),
        padding: number(take("padding_token_id")),
        cls: number(take("cls_token_id")),
        mask: number(take("mask_token_id")),
        infill: InfillIds::default(),
        add_bos: flag(take("add_bos_token")),
        add_eos: flag(take("add_eos_token")),
        add_space_prefix: flag(take("add_space_prefix")),
        remove_extra_whitespaces: flag(take("remove_extra_whitespaces")),
        escape_whitespaces: flag(take("escape_whitespaces")),
        treat_whitespace_as_suffix: flag(take("treat_whitespace_as_suffix")),
        lowercase: flag(take("normalizer.lowercase")),
        strip_accents: flag(take("normalizer.strip_accents")),
        precompiled_charsmap: numbers(take("precompiled_charsmap"))
            .map(|bytes| bytes.into_iter().map(|b| b as u8).collect()),
        name: text(map.remove("general.name")),
        chat_templates,
    }
}
