//! Grammars over real vocabularies: what is sampled under a mask satisfies the grammar, wherever the tokens are cut.

use lamina::{
    Grammar, GrammarError, Tokenizer,
    grammar::{GrammarMatcher, SchemaOptions, Vocabulary},
};
use lamina_fixtures::{Numbers, shared};
use serde_json::{Value, json};

/// The tokenizer inside the package, and those of the shared vocabularies where they are.
fn tokenizers() -> Vec<(String, Tokenizer)> {
    let mut out = vec![("packaged".to_owned(), lamina::tokenizer(None).expect("a tokenizer"))];
    for name in ["llama-spm", "llama-bpe", "bert-bge", "qwen2", "deepseek-llm"] {
        let Some(path) = shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { continue };
        out.push((name.into(), lamina::tokenizer(Some(&path)).expect("a tokenizer")));
    }
    out
}

fn vocabulary(tokenizer: &Tokenizer) -> Vocabulary {
    Vocabulary::new(tokenizer, tokenizer.eog_ids()).expect("a vocabulary")
}

fn allowed(mask: &[u32]) -> Vec<u32> {
    let bits = |(i, word): (usize, &u32)| {
        let word = *word;
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as u32 * 32 + bit)
    };
    mask.iter().enumerate().flat_map(bits).collect()
}

/// Samples at random until an end token, until the tokens are used up, or, with a vocabulary that lacks characters, until
/// one of those has to come. Bytes, and whether it ended.
fn sample(matcher: &mut GrammarMatcher, tokenizer: &Tokenizer, random: &mut Numbers) -> (Vec<u8>, bool) {
    let vocabulary = matcher.vocabulary().clone();
    let mut mask = vec![0; vocabulary.mask_words()];
    let mut bytes = Vec::new();
    for _ in 0..150 {
        match matcher.mask(&mut mask) {
            Err(GrammarError::Unwritable { .. }) if !vocabulary.writes_all() => return (bytes, false),
            made => made.expect("a mask"),
        }
        let tokens = allowed(&mask);
        let ends: Vec<u32> = tokens.iter().copied().filter(|t| vocabulary.end_tokens().contains(t)).collect();
        // Ends are one token among thousands: chosen more often, or nothing would end.
        let token = match ends.first() {
            Some(&end) if random.below(3) == 0 => end,
            _ => tokens[random.below(tokens.len())],
        };
        matcher.accept(token).expect("allowed");
        if vocabulary.end_tokens().contains(&token) {
            return (bytes, true);
        }
        bytes.extend_from_slice(tokenizer.token_bytes(token).expect("a token"));
    }
    (bytes, false)
}

fn schemas() -> Vec<Value> {
    vec![
        json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 5 }, "age": { "type": "integer", "minimum": 0, "maximum": 130 } }, "required": ["name", "age"], "additionalProperties": false }),
        json!({ "type": "array", "items": { "enum": ["é", "naïve", "日本", 3, null] }, "maxItems": 4 }),
        json!({ "type": "string", "format": "date" }),
        json!({ "oneOf": [{ "type": "object", "properties": { "k": { "const": "a" }, "v": { "type": "boolean" } }, "required": ["k"], "additionalProperties": false }, { "type": "object", "properties": { "k": { "const": "b" } }, "required": ["k"], "additionalProperties": false }] }),
        json!({ "type": "string", "pattern": "^[а-я]{2,4}😀?$" }),
    ]
}

#[test]
fn what_is_sampled_satisfies_the_grammar() {
    let mut grammars: Vec<Grammar> = schemas()
        .iter()
        .map(|schema| {
            Grammar::json_schema(schema, SchemaOptions { compact: true, ..SchemaOptions::default() })
                .expect("a schema")
        })
        .collect();
    grammars.push(Grammar::choice(&["yes", "no", "yes, of course"]).expect("a choice"));
    grammars.push(Grammar::regex(r"\d{3}-[a-z]{2}(ü|ß)*").expect("a pattern"));
    grammars.push(Grammar::gbnf("root ::= \"(\" root \")\" | [a-c]+ \"é\"").expect("a grammar"));
    for (name, tokenizer) in tokenizers() {
        let vocabulary = vocabulary(&tokenizer);
        let mut random = Numbers::seeded(11);
        for grammar in &grammars {
            let mut ended = 0;
            for _ in 0..6 {
                let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
                let (bytes, end) = sample(&mut matcher, &tokenizer, &mut random);
                let text = String::from_utf8_lossy(&bytes);
                assert!(grammar.allows(&bytes), "{name}: {grammar:?}: {text:?}");
                assert!(!end || grammar.matches(&bytes), "{name}: {grammar:?}: {text:?}");
                ended += usize::from(end);
            }
            assert!(ended > 0 || name == "bert-bge", "{name}: {grammar:?}: nothing ends");
        }
    }
}

#[test]
fn forks_and_rollbacks_leave_no_trace() {
    let tokenizer = lamina::tokenizer(None).expect("a tokenizer");
    let vocabulary = vocabulary(&tokenizer);
    let mut random = Numbers::seeded(5);
    for schema in schemas() {
        let grammar = Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema");
        let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
        let mut mask = vec![0; vocabulary.mask_words()];
        let mut again = mask.clone();
        for _ in 0..12 {
            matcher.mask(&mut mask).expect("a mask");
            let mut fork = matcher.fork();
            let mut taken = 0;
            for _ in 0..4 {
                fork.mask(&mut again).expect("a mask");
                let tokens = allowed(&again);
                fork.accept(tokens[random.below(tokens.len())]).expect("allowed");
                taken += 1;
                if fork.stopped().is_some() {
                    break;
                }
            }
            matcher.mask(&mut again).expect("a mask");
            assert_eq!(mask, again, "a fork changed its origin");
            fork.rollback(taken).expect("tokens to take back");
            fork.mask(&mut again).expect("a mask");
            assert_eq!(mask, again, "{schema}: rollback left a trace");
            let tokens = allowed(&mask);
            matcher.accept(tokens[random.below(tokens.len())]).expect("allowed");
            if matcher.stopped().is_some() {
                break;
            }
        }
    }
}

#[test]
fn forced_tokens_are_the_mask_and_illegal_ones_change_nothing() {
    let tokenizer = lamina::tokenizer(None).expect("a tokenizer");
    let vocabulary = vocabulary(&tokenizer);
    let grammar = Grammar::choice(&["a longer text that is forced"]).expect("a choice");
    let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
    let mut mask = vec![0; vocabulary.mask_words() + 3];
    let forced = matcher.forced();
    assert_eq!(forced.is_empty(), !vocabulary.forces_tokens());
    matcher.mask(&mut mask).expect("a mask");
    if let Some(&first) = forced.first() {
        assert_eq!(allowed(&mask), [first]);
        assert_eq!(matcher.legal(&forced), forced.len());
    }
    let wrong =
        (0..vocabulary.size() as u32).find(|&t| !matcher.allows(t)).expect("a token that is not allowed");
    assert!(matcher.accept(wrong).is_err() && matcher.accept(u32::MAX).is_err());
    forced.iter().for_each(|&t| matcher.accept(t).expect("forced"));
    let left: String = "a longer text that is forced"
        .chars()
        .skip(tokenizer.decode(&forced).expect("text").chars().count())
        .collect();
    assert_eq!(matcher.is_accepting(), left.is_empty());
}

#[test]
fn markers_are_never_text_and_named_tokens_are_tokens() {
    let tokenizer = lamina::tokenizer(None).expect("a tokenizer");
    let vocabulary = vocabulary(&tokenizer);
    let anything = Grammar::regex("(?s:.)*").expect("a pattern");
    let mut matcher = anything.matcher(&vocabulary).expect("a matcher");
    let mut mask = vec![0; vocabulary.mask_words()];
    matcher.mask(&mut mask).expect("a mask");
    for token in allowed(&mask) {
        assert!(
            !tokenizer.is_special(token) || vocabulary.end_tokens().contains(&token),
            "{token} is no text"
        );
    }
    let id = (0..vocabulary.size() as u32)
        .find(|&t| tokenizer.is_special(t) && !vocabulary.end_tokens().contains(&t));
    let Some(id) = id else { return };
    let grammar = Grammar::gbnf(&format!("root ::= <[{id}]> \"ab\"")).expect("a grammar");
    let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
    matcher.mask(&mut mask).expect("a mask");
    assert_eq!(allowed(&mask), [id]);
    matcher.accept(id).expect("allowed");
    assert!(!matcher.is_accepting() && !matcher.allows(id));
    let beyond = Grammar::gbnf("root ::= <[4000000]>").expect("a grammar").matcher(&vocabulary);
    assert!(beyond.is_err());
}

#[test]
fn a_finished_answer_takes_end_tokens_only() {
    let tokenizer = lamina::tokenizer(None).expect("a tokenizer");
    let vocabulary = vocabulary(&tokenizer);
    let end = vocabulary.end_tokens()[0];
    let grammar = Grammar::json_schema(
        &json!({ "const": true }),
        SchemaOptions { compact: true, ..SchemaOptions::default() },
    )
    .expect("a schema");
    let mut matcher = grammar.matcher(&vocabulary).expect("a matcher");
    assert_eq!(matcher.legal(&[end]), 0);
    let ids = tokenizer.encode("true", lamina::Special::NONE).expect("ids");
    let spelled: Vec<u8> =
        ids.iter().flat_map(|&t| tokenizer.token_bytes(t).unwrap_or_default()).copied().collect();
    if spelled != b"true" {
        return;
    }
    let mut draft = ids.clone();
    draft.push(end);
    assert_eq!(matcher.legal(&draft), draft.len());
    ids.iter().for_each(|&t| matcher.accept(t).expect("allowed"));
    let mut mask = vec![0; vocabulary.mask_words()];
    matcher.mask(&mut mask).expect("a mask");
    assert_eq!(allowed(&mask), vocabulary.end_tokens());
    matcher.accept(end).expect("the end");
    assert!(matcher.accept(end).is_err() && matcher.forced().is_empty());
    matcher.rollback(1 + ids.len()).expect("all of it");
    assert_eq!(matcher.accepted(), 0);
    assert_eq!(matcher.legal(&draft), draft.len());
}
