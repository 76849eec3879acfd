//! Random texts against the tokenizers' own implementations, through `oracle.py`. Needs LAMINA_PYTHON.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Random, gguf, python, read, shared};
use lamina_text::{GgufVocab, Special, TiktokenEncoding, Tokenizer, pre_tokenizer_names};
use serde_json::{Value, json};

const TEXTS: usize = 2_500;

/// The answers of `oracle.py` to these jobs.
fn ask(python: &Path, jobs: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let mut input = child.stdin.take().unwrap();
    let jobs = json!({ "jobs": jobs }).to_string();
    let writer = std::thread::spawn(move || input.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the oracle failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ids(answer: &Value) -> Vec<Vec<u32>> {
    serde_json::from_value(answer.clone()).unwrap()
}

fn texts(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random(seed);
    std::iter::once(String::new()).chain((1..count).map(|_| random.text())).collect()
}

/// The first texts whose ids differ and how many there are; empty when all agree.
fn differences(
    name: &str,
    tokenizer: &Tokenizer,
    special: Special,
    texts: &[String],
    expected: &[Vec<u32>],
) -> String {
    assert_eq!(texts.len(), expected.len());
    let mut wrong = Vec::new();
    for (text, expected) in texts.iter().zip(expected) {
        let ids = tokenizer.encode(text, special).unwrap();
        if ids != *expected {
            wrong.push(format!("{text:?}\n   ours {ids:?}\n  their {expected:?}"));
        }
    }
    match wrong.len() {
        0 => String::new(),
        count => {
            format!("{name}: {count} of {} texts differ\n{}\n", texts.len(), wrong[..count.min(3)].join("\n"))
        }
    }
}

fn compare(name: &str, tokenizer: &Tokenizer, special: Special, texts: &[String], expected: &[Vec<u32>]) {
    let wrong = differences(name, tokenizer, special, texts, expected);
    assert!(wrong.is_empty(), "{wrong}");
}

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
    let mut random = Random(3);
    let visible: Vec<u32> = (0..tokenizer.vocab_size() as u32)
        .filter(|&id| !tokenizer.is_special(id) && tokenizer.kind(id) != Some(lamina_text::TokenKind::Byte))
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

fn from_gguf(vocab: GgufVocab) -> Tokenizer {
    Tokenizer::from_gguf(vocab).unwrap()
}

/// Text without rare characters: llama.cpp's tables are of an older Unicode.
fn tame(seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..TEXTS).map(|_| random.text_with(0x250)).collect()
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

#[test]
fn bert_agrees_with_the_tokenizers_library() {
    let (Some(python), Some(dir)) = (python(), shared("vocab")) else { return };
    let vocab = gguf::vocab(dir.join("ggml-vocab-bert-bge.gguf"));
    let tokenizer = from_gguf(vocab.clone());
    // Its tables are of an older Unicode: no rare characters.
    let texts = tame(8);
    for (lowercase, strip) in [(true, true), (false, false), (true, false)] {
        let tokenizer = match (lowercase, strip) {
            (true, true) => tokenizer.clone(),
            _ => from_gguf(GgufVocab {
                lowercase: Some(lowercase),
                strip_accents: Some(strip),
                ..vocab.clone()
            }),
        };
        let job = json!({ "kind": "bert", "tokens": vocab.tokens, "texts": texts, "lowercase": lowercase, "strip": strip });
        compare("bert-bge", &tokenizer, Special::ADD, &texts, &ids(&ask(&python, &[job])[0]));
    }
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
