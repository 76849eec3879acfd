//! Texts that are encoded in parts, against the same texts as a whole.

use crate::common::{gguf, read, text};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{LongText, Special, Tokenizer};
use serde_json::{Value, json};

/// Ids of a text that is encoded so many bytes at a time, and the number of parts.
pub fn in_parts(tokenizer: &Tokenizer, text: &str, special: Special, bytes: usize) -> (Vec<u32>, usize) {
    all_parts(LongText::new(tokenizer, text, special).unwrap(), bytes)
}

fn all_parts(mut long: LongText, bytes: usize) -> (Vec<u32>, usize) {
    let mut parts = 1;
    loop {
        match long.advance(bytes).unwrap() {
            Some(ids) => return (ids, parts),
            None => parts += 1,
        }
    }
}

/// Every vocabulary of the shared folder, and those that come as a `tokenizer.json`.
fn tokenizers() -> Vec<(String, Tokenizer)> {
    let (Some(vocabularies), Some(files)) = (shared("vocab"), shared("tokenizers")) else { return vec![] };
    let mut paths: Vec<_> = std::fs::read_dir(vocabularies).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gguf"));
    let named = paths
        .into_iter()
        .map(|path| (path.display().to_string(), Tokenizer::from_gguf(gguf::vocab(path)).unwrap()));
    let json = ["phi-2", "phi-3", "gpt-neox"].map(|name| {
        let name = format!("{name}.tokenizer.json");
        let tokenizer = Tokenizer::from_hf_json(&read(files.join(&name))).unwrap();
        (name, tokenizer)
    });
    named.chain(json).collect()
}

#[test]
fn ids_of_parts_are_those_of_the_whole() {
    let mut random = Numbers::seeded(11);
    for (name, tokenizer) in tokenizers() {
        for round in 0..60 {
            let text: String = (0..random.below(12)).map(|_| text(&mut random)).collect();
            for special in [Special::NONE, Special::ADD_AND_PARSE] {
                let whole = tokenizer.encode(&text, special).unwrap();
                let bytes = [1, 2, 5, 40, usize::MAX][round % 5];
                assert_eq!(in_parts(&tokenizer, &text, special, bytes).0, whole, "{name}, {bytes}: {text:?}");
            }
        }
    }
}

#[test]
fn chats_in_parts_are_whole_chats() {
    let mut random = Numbers::seeded(13);
    for (name, tokenizer) in tokenizers() {
        let specials: Vec<String> = ["<s>", "</s>", "<|endoftext|>", "<|im_end|>", "[INST]", "<|end|>"]
            .iter()
            .filter(|text| tokenizer.token_to_id(text).is_some())
            .map(|&text| text.to_owned())
            .collect();
        for round in 0..30 {
            let mut rendered = String::new();
            for _ in 0..random.below(8) {
                rendered += &text(&mut random);
                if !specials.is_empty() {
                    rendered += random.pick::<String>(&specials).as_str();
                }
                if round % 2 == 0 {
                    rendered.push('\u{fdd0}');
                }
            }
            for mark in [None, Some('\u{fdd0}')] {
                let whole = tokenizer.encode_chat(&rendered, mark).unwrap();
                let long = LongText::chat(&tokenizer, &rendered, mark).unwrap();
                assert_eq!(all_parts(long, 1 + round % 9).0, whole, "{name}: {rendered:?}");
                if mark.is_none() && !rendered.starts_with("<s>") {
                    let plain = tokenizer.encode(&rendered, Special::PARSE).unwrap();
                    assert!(whole.ends_with(&plain), "{name}: {rendered:?}");
                }
            }
        }
    }
}

#[test]
fn every_way_to_cut_that_can_be_certain_has_parts() {
    let vocab: serde_json::Map<_, _> =
        (' '..='~').chain(['\u{2581}', '\u{120}']).enumerate().map(|(id, c)| (c.into(), id.into())).collect();
    let merges = ["t h", "\u{2581} t", "1 2", "o g", "\u{2581} \u{2581}"];
    let pattern = |regex: &str, behavior: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": false});
    let spaces = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": true, "use_regex": regex});
    let marks = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split});
    let several = |parts: &[Value]| json!({"type": "Sequence", "pretokenizers": parts});
    let cuts = [
        bytes(true),
        pattern(r"\w+|[^\w\s]+|\s+(?!\S)|\s+", "Isolated"),
        pattern(r"\d", "Removed"),
        spaces,
        several(&[json!({"type": "Digits", "individual_digits": false}), bytes(true)]),
        several(&[pattern(r"(?i:'s)|\p{L}+|\s+(?!\S)|\s+|.", "Isolated"), bytes(false)]),
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "Whitespace"}),
        json!({"type": "WhitespaceSplit"}),
        json!({"type": "CharDelimiterSplit", "delimiter": "o"}),
        marks("always", true),
        marks("first", true),
        Value::Null,
    ];
    let left_whole =
        [json!({"type": "UnicodeScripts"}), marks("first", false), pattern(r"\d", "MergedWithNext")];
    let mut random = Numbers::seeded(12);
    for (at, cut) in cuts.iter().chain(&left_whole).enumerate() {
        let normalizer = cut
            .is_null()
            .then(|| json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}));
        let file = json!({"version": "1.0", "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": cut, "post_processor": null,
            "decoder": null, "model": {"type": "BPE", "vocab": full(&vocab, &merges), "merges": merges, "unk_token": "~"}});
        let tokenizer = Tokenizer::from_hf_json(file.to_string().as_bytes()).unwrap();
        let prose = "The dog  has 12 bones, the other one 345.\n".repeat(50);
        let (ids, parts) = in_parts(&tokenizer, &prose, Special::NONE, 40);
        assert_eq!(ids, tokenizer.encode(&prose, Special::NONE).unwrap(), "{cut}");
        assert_eq!(parts > 20, at < cuts.len(), "{cut}: {parts}");
        for _ in 0..200 {
            let text: String = (0..random.below(8)).map(|_| text(&mut random)).collect();
            let whole = tokenizer.encode(&text, Special::NONE).unwrap();
            assert_eq!(
                in_parts(&tokenizer, &text, Special::NONE, 1 + random.below(9)).0,
                whole,
                "{cut}: {text:?}"
            );
        }
    }
}

/// A vocabulary with what its merges make.
fn full(vocab: &serde_json::Map<String, Value>, merges: &[&str]) -> Value {
    let mut all = vocab.clone();
    for merge in merges {
        let next = all.len();
        all.entry(merge.replace(' ', "")).or_insert(next.into());
    }
    all.into()
}

#[test]
fn long_texts_have_many_parts_where_words_are_cut() {
    let prose = "Once upon a time there were 42 little dogs.\n".repeat(100);
    let mut cut = 0;
    for (name, tokenizer) in tokenizers() {
        let (ids, parts) = in_parts(&tokenizer, &prose, Special::NONE, 400);
        assert_eq!(ids, tokenizer.encode(&prose, Special::NONE).unwrap(), "{name}");
        assert!(parts <= 2 || parts >= 10, "{name}: {parts}");
        assert!(parts > 2 || !name.ends_with(".json"), "{name}");
        cut += usize::from(parts > 2);
        assert_eq!(in_parts(&tokenizer, &"x".repeat(4000), Special::NONE, 400).0.len(), {
            tokenizer.encode(&"x".repeat(4000), Special::NONE).unwrap().len()
        });
    }
    assert!(cut == 0 || cut >= 8, "{cut}");
}
