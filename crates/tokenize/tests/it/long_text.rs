//! Texts that are encoded in parts, against the same texts as a whole.

use crate::common::{gguf, read, text};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{LongText, Special, Tokenizer};

fn in_parts(tokenizer: &Tokenizer, text: &str, special: Special, bytes: usize) -> (Vec<u32>, usize) {
    let mut long = LongText::new(tokenizer, text, special).unwrap();
    let mut parts = 1;
    loop {
        match long.advance(bytes).unwrap() {
            Some(ids) => return (ids, parts),
            None => parts += 1,
        }
    }
}

/// Every vocabulary of the shared folder, and one that comes as a `tokenizer.json`.
fn tokenizers() -> Vec<(String, Tokenizer)> {
    let (Some(vocabularies), Some(files)) = (shared("vocab"), shared("tokenizers")) else { return vec![] };
    let mut paths: Vec<_> = std::fs::read_dir(vocabularies).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gguf"));
    let named = paths
        .into_iter()
        .map(|path| (path.display().to_string(), Tokenizer::from_gguf(gguf::vocab(path)).unwrap()));
    let json = Tokenizer::from_hf_json(&read(files.join("phi-2.tokenizer.json"))).unwrap();
    named.chain([("phi-2.tokenizer.json".into(), json)]).collect()
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
fn long_texts_have_many_parts_where_words_are_cut() {
    let prose = "Once upon a time there were 42 little dogs.\n".repeat(100);
    let mut cut = 0;
    for (name, tokenizer) in tokenizers() {
        let (ids, parts) = in_parts(&tokenizer, &prose, Special::NONE, 400);
        assert_eq!(ids, tokenizer.encode(&prose, Special::NONE).unwrap(), "{name}");
        assert!(parts <= 2 || parts >= 10, "{name}: {parts}");
        cut += usize::from(parts > 2);
        assert_eq!(in_parts(&tokenizer, &"x".repeat(4000), Special::NONE, 400).0.len(), {
            tokenizer.encode(&"x".repeat(4000), Special::NONE).unwrap().len()
        });
    }
    assert!(cut == 0 || cut >= 8, "{cut}");
}
