//! Special tokens that a conversation spells stay text under every template, and nothing else changes.

use crate::read_text;
use lamina_chat::{ChatTemplate, Clock, Conversation};
use lamina_fixtures::shared;
use lamina_tokenize::{Markers, Special, Tokenizer};
use serde_json::{Value, json};

/// Tokenizers of both engines: SentencePiece, tiktoken, and the library's.
fn tokenizers() -> Vec<Tokenizer> {
    let Some(files) = shared("tokenizers") else { return Vec::new() };
    let mut all = Vec::new();
    for (from, to) in [
        ("llama3.tokenizer.model", "tokenizer.model"),
        ("llama2.tokenizer.model", "tokenizer.model"),
        ("qwen.tiktoken", "qwen.tiktoken"),
        ("phi-3.tokenizer.json", "tokenizer.json"),
        ("phi-2.tokenizer.json", "tokenizer.json"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(files.join(from), folder.path().join(to)).unwrap();
        all.push(Tokenizer::from_dir(folder.path()).unwrap().unwrap());
    }
    all
}

/// A few control tokens of a vocabulary.
fn controls(tokenizer: &Tokenizer) -> Vec<String> {
    let ids = (0..tokenizer.vocab_size() as u32).filter(|&id| tokenizer.is_special(id));
    let texts = ids.filter_map(|id| tokenizer.id_to_token(id).map(str::to_owned));
    texts.filter(|text| text.len() > 2).take(4).collect()
}

fn count(ids: &[u32], tokenizer: &Tokenizer) -> usize {
    ids.iter().filter(|&&id| tokenizer.is_special(id)).count()
}

#[test]
fn a_message_makes_no_control_token_under_any_template() {
    let Some(folder) = shared("templates") else { return };
    for tokenizer in tokenizers() {
        let controls = controls(&tokenizer);
        let hostile = format!("a {} b{}", controls.join(""), controls.join(" x "));
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let template = ChatTemplate::new(&read_text(&path)).unwrap().with_clock(Clock::Fixed(0));
            let ids = |content: &str, all: bool| {
                let messages: Vec<Value> = vec![json!({"role": "user", "content": content})];
                let conversation = Conversation::new(&messages, &tokenizer);
                let begun = match all {
                    true => template.begin_all_special(&conversation, &tokenizer),
                    false => template.begin(&conversation, &tokenizer),
                };
                begun.map(|long| long.rest().unwrap())
            };
            let (Ok(plain), Ok(own)) = (ids("a plain text", false), ids(&hostile, false)) else { continue };
            assert_eq!(count(&own, &tokenizer), count(&plain, &tokenizer), "{}", path.display());
            let read = ids(&hostile, true).unwrap();
            assert!(count(&read, &tokenizer) > count(&plain, &tokenizer), "{}", path.display());
            // The text is the same to the byte, the way it is cut aside.
            let shown = |ids: &[u32]| tokenizer.decode_with(ids, Markers::Show).unwrap();
            assert!(shown(&own).contains(&hostile) || !shown(&read).contains(&hostile), "{}", path.display());
        }
    }
}

#[test]
fn texts_without_special_tokens_are_what_they_were() {
    for tokenizer in tokenizers() {
        let template = ChatTemplate::of_tokenizer(&tokenizer, false).unwrap();
        let messages = [json!({"role": "user", "content": "if a < b then [x] | y </think> \u{1f600}"})];
        let conversation = Conversation::new(&messages, &tokenizer);
        let own = template.encode(&conversation, &tokenizer).unwrap();
        let all = template.begin_all_special(&conversation, &tokenizer).unwrap();
        assert_eq!(own, all.rest().unwrap());
    }
}

/// What stays text is cut as in a plain text.
#[test]
fn a_broken_token_is_cut_as_plain_text() {
    for tokenizer in tokenizers() {
        let Some(control) = controls(&tokenizer).into_iter().next() else { continue };
        let template = ChatTemplate::new("{{ messages[0].content }}").unwrap();
        let content = format!("x {control} y");
        let messages = [json!({"role": "user", "content": content})];
        let own = template.encode(&Conversation::new(&messages, &tokenizer), &tokenizer).unwrap();
        let plain = tokenizer.encode(&content, Special::NONE).unwrap();
        assert!(own.ends_with(&plain), "{own:?} {plain:?}");
    }
}
