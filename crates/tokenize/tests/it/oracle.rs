//! Rank files, SentencePiece models and BERT against their own implementations on random text, through `oracle.py`.
//! Needs LAMINA_PYTHON.

use std::path::Path;

use crate::common::oracle::{TEXTS, ask, compare, ids, tame, texts};
use crate::common::{gguf, python, read};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{GgufVocab, Special, TiktokenEncoding, Tokenizer};
use serde_json::{Value, json};

#[test]
fn rank_files_agree_with_tiktoken() {
    let (Some(python), Some(dir)) = (python(), shared("tokenizers")) else { return };
    let texts = texts(1, TEXTS);
    let files = [
        ("cl100k_base", "cl100k_base.tiktoken"),
        ("o200k_base", "o200k_base.tiktoken"),
        ("llama3", "llama3.tokenizer.model"),
        ("qwen", "qwen.tiktoken"),
        // The rank file of one encoding cut by another's pattern.
        ("gpt2", "cl100k_base.tiktoken"),
    ];
    let special = [("<|im_end|>", 300_000)];
    for parse in [false, true] {
        let jobs: Vec<Value> = files
            .iter()
            .map(|(name, file)| {
                json!({ "kind": "tiktoken", "name": name, "path": dir.join(file), "texts": texts,
                        "parse": parse, "special": special })
            })
            .collect();
        for ((name, file), answer) in files.iter().zip(ask(&python, &jobs)) {
            let encoding = TiktokenEncoding::named(name).unwrap();
            let ranks = read(dir.join(file));
            let special = [("<|im_end|>".to_owned(), 300_000)];
            // GPT-2's own special id is a rank of the other file.
            let tokenizer = match *name {
                "gpt2" => Tokenizer::from_tiktoken(&ranks, &encoding.without_special(), &special),
                _ => Tokenizer::from_tiktoken(&ranks, &encoding, &special),
            };
            compare(name, &tokenizer.unwrap(), Special { add: false, parse }, &texts, &ids(&answer));
        }
    }
}

#[test]
fn sentencepiece_files_agree_with_sentencepiece() {
    let (Some(python), Some(root)) = (python(), shared("tokenizers").and(shared("."))) else { return };
    let files = [
        "tokenizers/llama2.tokenizer.model",
        "models/stories260k/tokenizer.model",
        "models/babyllama105/tokenizer.model",
    ];
    let texts = texts(2, TEXTS);
    for file in files {
        let path = root.join(file);
        check_sentencepiece(&python, &path, &texts);
    }
}

fn check_sentencepiece(python: &Path, path: &Path, texts: &[String]) {
    let name = path.display().to_string();
    let tokenizer = Tokenizer::from_sentencepiece(&read(path)).unwrap();
    let answers = ask(python, &[json!({ "kind": "sentencepiece", "path": path, "texts": texts })]);
    let expected = ids(&answers[0]);
    compare(&name, &tokenizer, Special::NONE, texts, &expected);
    // Sequences without unknown and byte tokens: those are shown differently on purpose.
    let mut random = Numbers::seeded(3);
    let visible: Vec<u32> = (0..tokenizer.vocab_size() as u32)
        .filter(|&id| {
            !tokenizer.is_special(id) && tokenizer.kind(id) != Some(lamina_tokenize::TokenKind::Byte)
        })
        .collect();
    let mut sequences: Vec<Vec<u32>> = (0..300)
        .map(|_| (0..random.below(9)).map(|_| visible[random.below(visible.len())]).collect())
        .collect();
    let known = |ids: &&Vec<u32>| ids.iter().all(|&id| !tokenizer.is_special(id));
    sequences.extend(expected.iter().filter(known).cloned());
    let job = json!({ "kind": "sentencepiece_decode", "path": path, "ids": sequences });
    let expected: Vec<String> = serde_json::from_value(ask(python, &[job])[0].clone()).unwrap();
    for (sequence, text) in sequences.iter().zip(expected) {
        assert_eq!(tokenizer.decode(sequence).unwrap(), text, "{name}: {sequence:?}");
    }
}

#[test]
fn freshly_trained_models_agree_with_sentencepiece() {
    let (Some(python), Some(dir)) = (python(), shared("text")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let common = json!({ "vocab_size": 1800, "num_threads": 1, "input_sentence_size": 2000, "shuffle_input_sentence": false,
                         "hard_vocab_limit": false, "character_coverage": 0.98 });
    let variants = [
        ("unigram", json!({ "model_type": "unigram" })),
        ("unigram-bytes", json!({ "model_type": "unigram", "byte_fallback": true })),
        ("bpe", json!({ "model_type": "bpe" })),
        (
            "bpe-bytes",
            json!({ "model_type": "bpe", "byte_fallback": true, "normalization_rule_name": "identity",
                              "remove_extra_whitespaces": false }),
        ),
        ("char", json!({ "model_type": "char", "normalization_rule_name": "nfkc_cf" })),
        (
            "own",
            json!({ "model_type": "bpe", "user_defined_symbols": ["<|im_end|>", "HTTP", "  ", "don"],
                        "control_symbols": ["<s2>"] }),
        ),
        (
            "own-unigram",
            json!({ "model_type": "unigram", "user_defined_symbols": ["<|im_end|>", "HTTP", "don"],
                                "byte_fallback": true, "add_dummy_prefix": false }),
        ),
        ("suffix", json!({ "model_type": "unigram", "treat_whitespace_as_suffix": true })),
        ("no-collapse", json!({ "model_type": "unigram", "remove_extra_whitespaces": false })),
        (
            "bare",
            json!({ "model_type": "bpe", "add_dummy_prefix": false, "remove_extra_whitespaces": false }),
        ),
    ];
    let texts = texts(4, TEXTS);
    for (name, own) in variants {
        let path = folder.path().join(format!("{name}.model"));
        let mut options = common.clone();
        options.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let input = dir.join("multilingual.txt");
        ask(
            &python,
            &[json!({ "kind": "sentencepiece_train", "path": path, "input": input, "options": options })],
        );
        check_sentencepiece(&python, &path, &texts);
    }
}

#[test]
fn bert_agrees_with_the_tokenizers_library() {
    let (Some(python), Some(dir)) = (python(), shared("vocab")) else { return };
    let vocab = gguf::vocab(dir.join("ggml-vocab-bert-bge.gguf"));
    let tokenizer = Tokenizer::from_gguf(vocab.clone()).unwrap();
    // Its tables are of an older Unicode: no rare characters.
    let texts = tame(8);
    for (lowercase, strip) in [(true, true), (false, false), (true, false)] {
        let tokenizer = match (lowercase, strip) {
            (true, true) => tokenizer.clone(),
            _ => Tokenizer::from_gguf(GgufVocab {
                lowercase: Some(lowercase),
                strip_accents: Some(strip),
                ..vocab.clone()
            })
            .unwrap(),
        };
        let job = json!({ "kind": "bert", "tokens": vocab.tokens, "texts": texts, "lowercase": lowercase, "strip": strip });
        compare("bert-bge", &tokenizer, Special::ADD, &texts, &ids(&ask(&python, &[job])[0]));
    }
}
