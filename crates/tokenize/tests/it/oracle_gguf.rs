//! GGUF vocabularies and pre-tokenizers against llama.cpp and against the published patterns, through `oracle.py`.
//! Needs LAMINA_PYTHON.

use std::path::Path;

use crate::common::oracle::{ask, compare, differences, ids, tame};
use crate::common::{gguf, python, read};
use lamina_fixtures::shared;
use lamina_tokenize::{GgufVocab, Special, Tokenizer, pre_tokenizer_names};
use serde_json::{Value, json};

fn from_gguf(vocab: GgufVocab) -> Tokenizer {
    Tokenizer::from_gguf(vocab).unwrap()
}

/// The pre-tokenizer that the file itself names.
fn tokenizer_pre(vocabulary: &str) -> &str {
    match vocabulary {
        "llama-spm" | "phi-3" => "default",
        other => other,
    }
}

#[test]
fn vocabularies_agree_with_llama_cpp() {
    let (Some(python), Some(dir)) = (python(), shared("vocab")) else { return };
    let all = tame(5);
    for name in
        ["llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2", "falcon", "mpt", "starcoder", "deepseek-llm"]
    {
        let path = dir.join(format!("ggml-vocab-{name}.gguf"));
        let tokenizer = from_gguf(gguf::vocab(&path));
        let texts: Vec<String> =
            all.iter().filter(|t| !is_approximate_in_llama_cpp(name, t)).cloned().collect();
        for special in [Special::NONE, Special::ADD_AND_PARSE] {
            let job = json!({ "kind": "llama", "path": path, "texts": texts, "add": special.add,
                              "parse": special.parse, "pre": tokenizer_pre(name) });
            compare(name, &tokenizer, special, &texts, &ids(&ask(&python, &[job])[0]));
        }
    }
}

/// Where llama.cpp only comes near the published patterns, as its regular expressions know neither combining marks,
/// cases nor spaces beyond ASCII. `families_agree_with_their_original_patterns` is the judge of these.
fn is_approximate_in_llama_cpp(pre: &str, text: &str) -> bool {
    let wide_space = |c: char| c.is_whitespace() && !c.is_ascii();
    match pre {
        // The text before a number stays with its first digits.
        "afmoe" | "deepseek-llm" | "deepseek-coder" => text.contains(wide_space),
        "superbpe" => text.contains(['\u{663}', '\u{664}']),
        "tiny_aya" | "cohere2moe" | "youtu" => true,
        "tekken" | "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" | "kimi-k2" => {
            text.contains(['\u{301}', '\u{94d}'])
        }
        _ => false,
    }
}

#[test]
fn families_agree_with_llama_cpp() {
    let (Some(python), Some(dir)) = (python(), shared("vocab")) else { return };
    let all = tame(6);
    let mut wrong = String::new();
    let path = dir.join("ggml-vocab-gpt-2.gguf");
    // These families have vocabularies of plain characters; see `families_of_plain_characters`.
    let plain = ["gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"];
    for name in pre_tokenizer_names().filter(|name| !plain.contains(name)) {
        let texts: Vec<String> =
            all.iter().filter(|t| !is_approximate_in_llama_cpp(name, t)).cloned().collect();
        let mut vocab = gguf::vocab(&path);
        vocab.pre = Some(name.into());
        let tokenizer = from_gguf(vocab);
        let job = json!({ "kind": "llama", "path": path, "texts": texts, "pre": name });
        let expected = ids(&ask(&python, &[job])[0]);
        wrong += &differences(name, &tokenizer, Special::NONE, &texts, &expected);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn families_agree_with_their_original_patterns() {
    let (Some(python), Some(dir), Some(files)) = (python(), shared("vocab"), shared("tokenizers")) else {
        return;
    };
    let names: Vec<String> =
        serde_json::from_value(ask(&python, &[json!({ "kind": "original_names" })])[0].clone()).unwrap();
    let texts = tame(7);
    let mut wrong = String::new();
    for name in names {
        let mut vocab = gguf::vocab(dir.join("ggml-vocab-gpt-2.gguf"));
        vocab.pre = Some(name.clone());
        let tokenizer = from_gguf(vocab);
        assert!(tokenizer.warnings().is_empty(), "{name}");
        let (vocab, merges) = (files.join("gpt2.vocab.json"), files.join("gpt2.merges.txt"));
        let job =
            json!({ "kind": "original", "pre": name, "vocab": vocab, "merges": merges, "texts": texts });
        let expected = ids(&ask(&python, &[job])[0]);
        wrong += &differences(&name, &tokenizer, Special::NONE, &texts, &expected);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Compares a vocabulary with llama.cpp; the file is another one with these keys changed.
fn check_patched(python: &Path, base: &Path, vocab: GgufVocab, patch: Value, texts: &[String]) {
    let name = vocab.model.clone();
    let tokenizer = from_gguf(vocab);
    let mut patch = patch;
    patch["tokenizer.ggml.model"] = name.clone().into();
    let job = json!({ "kind": "llama", "path": base, "texts": texts, "patch": patch });
    compare(&name, &tokenizer, Special::NONE, texts, &ids(&ask(python, &[job])[0]));
    for text in texts.iter().take(300).filter(|_| !matches!(name.as_str(), "t5" | "whitespace")) {
        let ids = tokenizer.encode(text, Special::NONE).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), *text, "{name}");
    }
}

/// Phi-3's vocabulary with the merges of its `tokenizer.json` is of Gemma 4's kind: U+2581 for spaces, byte tokens.
#[test]
fn families_of_plain_characters() {
    let (Some(python), Some(dir), Some(files)) = (python(), shared("vocab"), shared("tokenizers")) else {
        return;
    };
    let path = dir.join("ggml-vocab-phi-3.gguf");
    let json: Value = serde_json::from_slice(&read(files.join("phi-3.tokenizer.json"))).unwrap();
    let merges: Vec<String> = serde_json::from_value(json["model"]["merges"].clone()).unwrap();
    let texts: Vec<String> = tame(9).into_iter().filter(|text| !text.contains('\u{2581}')).collect();
    for (model, pre) in [("gemma4", "gemma4"), ("gpt2", "sarvam-moe"), ("whitespace", "whitespace")] {
        let mut vocab = gguf::vocab(&path);
        vocab.model = model.into();
        vocab.pre = Some(pre.into());
        vocab.merges = Some(merges.clone());
        let patch = json!({ "tokenizer.ggml.merges": merges, "tokenizer.ggml.pre": pre });
        check_patched(&python, &path, vocab, patch, &texts);
    }
}

/// A small vocabulary for models that no shared file is of: byte tokens and some words.
fn small_vocab(byte: impl Fn(u8) -> String) -> (Vec<String>, Vec<f32>, Vec<i32>) {
    let words = [
        "the",
        "Hello",
        " world",
        "worl",
        " wor",
        "ld",
        "\n\n",
        "12",
        "345",
        "123",
        "34567",
        "don",
        "n't",
        "'s",
        "\u{4e2d}\u{6587}",
        "\u{4f60}",
        "\u{597d}",
        "HTTP",
        "Server",
        "HTTPS",
        "erver",
        "  ",
        "camel",
        "Case",
        "elCase",
        "\u{41f}\u{440}\u{438}",
        "\u{1f600}",
    ];
    let mut tokens: Vec<String> = vec!["<unk>".into()];
    tokens.extend((0..=255).map(byte));
    let mut scores = vec![0.0; tokens.len()];
    let mut kinds = vec![6; tokens.len()];
    kinds[0] = 3;
    for (at, word) in words.iter().enumerate() {
        tokens.push((*word).to_owned());
        scores.push(-((at * 7 % 11) as f32) - 0.5);
        kinds.push(1);
    }
    (tokens, scores, kinds)
}

fn small(
    python: &Path,
    base: &Path,
    model: &str,
    (tokens, scores, kinds): (Vec<String>, Vec<f32>, Vec<i32>),
    texts: &[String],
) {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let mut patch = json!({ key("tokens"): tokens, key("scores"): scores, key("token_type"): kinds });
    for name in ["pre", "merges", "bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id"] {
        patch[key(name)] = Value::Null;
    }
    let unknown = 0;
    patch[key("unknown_token_id")] = unknown.into();
    let mut vocab = GgufVocab {
        model: model.into(),
        tokens,
        scores: Some(scores),
        token_types: Some(kinds),
        unknown: Some(unknown),
        ..GgufVocab::default()
    };
    if model == "t5" {
        vocab.add_space_prefix = Some(true);
        vocab.remove_extra_whitespaces = Some(true);
        patch[key("add_space_prefix")] = true.into();
        patch[key("remove_extra_whitespaces")] = true.into();
    }
    check_patched(python, base, vocab, patch, texts);
}

#[test]
fn small_vocabularies_agree_with_llama_cpp() {
    let (Some(python), Some(dir), Some(text)) = (python(), shared("vocab"), shared("text")) else { return };
    let base = dir.join("ggml-vocab-llama-spm.gguf");
    let texts: Vec<String> = tame(10).into_iter().filter(|text| !text.starts_with('\u{feff}')).collect();
    small(&python, &base, "plamo2", small_vocab(|b| format!("<0x{b:02X}>")), &texts);
    let (tokens, scores, mut kinds) = small_vocab(|b| format!("\\x{b:02x}"));
    kinds[1..].fill(1);
    let tokens = tokens.into_iter().map(|t| t.replace('\n', "\\n")).collect();
    small(&python, &base, "rwkv", (tokens, scores, kinds), &texts);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t5.model");
    let options = json!({ "model_type": "unigram", "vocab_size": 1800, "hard_vocab_limit": false, "num_threads": 1,
        "normalization_rule_name": "identity", "character_coverage": 0.98 });
    let input = text.join("multilingual.txt");
    let train = json!({ "kind": "sentencepiece_train", "path": path, "input": input, "options": options });
    let dump = &ask(&python, &[train, json!({ "kind": "sentencepiece_dump", "path": path })])[1];
    let pieces = serde_json::from_value(dump.clone()).unwrap();
    // llama.cpp writes no space for a text of nothing but spaces, and SentencePiece no token.
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.contains('\u{2581}')).collect();
    small(&python, &base, "t5", pieces, &texts);
}
