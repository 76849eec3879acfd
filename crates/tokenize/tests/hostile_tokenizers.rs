//! Tokenizer files that ask for more than their bytes are worth: each ends soon with an error or a tokenizer that works.
//!
//! A binary of its own: the peak of memory is the process's.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lamina_base::peak_rss;
use lamina_fixtures::Numbers;
use lamina_tokenize::{Special, TokenizeError, Tokenizer};
use serde_json::{Value, json};

/// A good file with one stage in place of its own.
fn file(stage: &str, piece: Value) -> Value {
    let mut json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3}, "merges": [["a", "b"]]},
    });
    json[stage] = piece;
    json
}

/// A build without optimization on a busy machine is an order of magnitude slower than a release.
const SLOWEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// What a file may take beyond a good one.
const MOST_BYTES: u64 = 256 << 20;

/// The peak of memory is the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds and uses it, within two seconds (a busy machine given).
fn used(json: &Value) -> Result<usize, TokenizeError> {
    let (start, before) = (Instant::now(), peak_rss());
    let result = Tokenizer::from_hf_json(json.to_string().as_bytes()).and_then(|tokenizer| {
        let mut tokens = 0;
        for text in ["", "a", "ab ba <s>", &"ab ".repeat(2000), "\u{fdfa}\u{1e9b}\u{323} \u{0}", "aaaaaaaa"] {
            for special in [Special::NONE, Special::ADD_AND_PARSE] {
                let ids = tokenizer.encode(text, special)?;
                tokenizer.decode(&ids)?;
                tokens += ids.len();
            }
        }
        Ok(tokens)
    });
    let shown: String = json.to_string().chars().take(5000).collect();
    assert!(start.elapsed() < SLOWEST, "{:?} {shown}", start.elapsed());
    if let (Some(before), Some(now)) = (before, peak_rss()) {
        assert!(now < before + MOST_BYTES, "{} bytes {shown}", now - before);
    }
    result
}

fn refused(stage: &str, piece: Value, word: &str) {
    match used(&file(stage, piece.clone())) {
        Err(error) => assert!(error.to_string().contains(word), "{error}"),
        Ok(_) => panic!("{piece} was accepted"),
    }
}

#[test]
fn pieces_that_ask_for_too_much_are_refused() {
    let _alone = alone();
    assert!(used(&file("normalizer", Value::Null)).unwrap() > 0);
    let replace = |from: Value, to: &str| json!({"type": "Replace", "pattern": from, "content": to});
    let text = |from: &str| json!({"String": from});
    refused("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}), "trie");
    refused("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": ""}), "empty");
    refused("normalizer", replace(text(""), "x"), "empty pattern");
    refused("normalizer", replace(json!({"Regex": ""}), "x"), "empty pattern");
    refused("normalizer", replace(text("a"), &"a".repeat(1000)), "bytes of one");
    refused("normalizer", json!({"type": "Prepend", "prepend": "a".repeat(100_000)}), "before each");
    let forty: Vec<Value> = (0..40).map(|_| replace(text("a"), "aa")).collect();
    refused("normalizer", json!({"type": "Sequence", "normalizers": forty}), "bytes of one");
    let many: Vec<Value> = (0..5000).map(|_| json!({"type": "Lowercase"})).collect();
    refused("normalizer", json!({"type": "Sequence", "normalizers": many}), "pieces");
    let split = json!({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false});
    refused("pre_tokenizer", split, "empty pattern");
    let template = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}],
        "pair": [], "special_tokens": {}});
    refused("post_processor", template, "<x>");
    let mut words = file("decoder", Value::Null);
    words["model"] = json!({"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": u64::MAX, "vocab": {"a": 0}});
    assert!(used(&words).is_err_and(|e| e.to_string().contains("max_input_chars_per_word")));
    words["model"]["max_input_chars_per_word"] = json!(256);
    assert!(used(&words).is_ok());
    // As real files have them.
    assert!(used(&file("normalizer", replace(text(" "), "\u{2581}"))).is_ok());
    assert!(used(&file("normalizer", json!({"type": "Prepend", "prepend": "\u{2581}"}))).is_ok());
}

/// A pre-tokenizer that cuts with an expression.
fn cut(regex: &str) -> Value {
    file(
        "pre_tokenizer",
        json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}),
    )
}

#[test]
fn expressions_that_never_end_are_bounded_or_refused() {
    let _alone = alone();
    let tokenizer = |json: &Value| Tokenizer::from_hf_json(json.to_string().as_bytes());
    let text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ".repeat(2000);
    for regex in ["(?:a|aa)+(?!c)b", "(a+)+b(?!c)", "(?:a|aa)+$(?=x)", "(?:a*)*(?=b)", "((a|b)*)*(?<=c)"] {
        let tokenizer = tokenizer(&cut(regex)).unwrap();
        let start = Instant::now();
        let encoded = tokenizer.encode(&text, Special::NONE);
        assert!(start.elapsed() < SLOWEST, "{regex}: {:?}", start.elapsed());
        if let Err(error) = encoded {
            assert!(error.to_string().contains("shorten it"), "{regex}: {error}");
        }
    }
    assert!(tokenizer(&cut("(?:a|aa)+(?!c)b")).unwrap().encode(&text, Special::NONE).is_err());
    refused("pre_tokenizer", cut("(a)\\1")["pre_tokenizer"].clone(), "refers to what it has matched");
    let look = json!({"type": "Replace", "pattern": {"Regex": "a+(?!b)"}, "content": "a"});
    refused("normalizer", look.clone(), "looks ahead");
    refused("decoder", look, "looks ahead");
    let far = json!({"type": "Replace", "pattern": {"Regex": "a+b|a"}, "content": "a"});
    refused("normalizer", far, "looks ahead");
    assert!(
        used(&file("normalizer", json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})))
            .is_ok()
    );
}

#[test]
fn a_million_spaces_do_not_change_how_the_rest_is_cut() {
    let _alone = alone();
    let published = "'s| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    let long = " ".repeat(1_200_000) + "a b";
    let stage =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    for (mut json, space) in [(cut(published), " "), (file("pre_tokenizer", stage), "\u{120}")] {
        // Two spaces are a token, but never across a cut: the last one of a run goes with the letter.
        json["model"]["vocab"][space] = json!(3);
        json["model"]["vocab"][space.repeat(2)] = json!(5);
        json["model"]["merges"] = json!([[space, space]]);
        let tokenizer = Tokenizer::from_hf_json(json.to_string().as_bytes()).unwrap();
        let ids = tokenizer.encode(&long, Special::NONE).unwrap();
        assert_eq!(ids.len(), 599_999 + 1 + 4, "{space:?}");
        assert_eq!(ids[599_998..], [5, 3, 3, 0, 3, 1], "{space:?}");
    }
}

#[test]
fn merges_that_do_not_fit_their_prefix_are_refused() {
    let _alone = alone();
    let mut json = file("normalizer", Value::Null);
    json["model"]["continuing_subword_prefix"] = json!("abcdefgh");
    assert!(used(&json).is_err_and(|e| e.to_string().contains("abcdefgh")));
    json["model"]["merges"] = json!([]);
    assert!(used(&json).is_ok());
    json["model"]["dropout"] = json!(0.5);
    assert!(used(&json).is_err_and(|e| e.to_string().contains("dropout")));
}

#[test]
fn a_far_id_does_not_fill_the_memory() {
    let _alone = alone();
    let mut json = file("normalizer", Value::Null);
    json["model"]["vocab"]["far"] = json!(4_000_000);
    assert!(used(&json).unwrap_err().to_string().contains("far"));
}

#[test]
fn an_added_token_that_overlaps_itself_loads_at_once() {
    let _alone = alone();
    let mut json = file("normalizer", Value::Null);
    json["added_tokens"][0]["content"] = json!("ab".repeat(50_000));
    assert!(used(&json).is_err());
    json["added_tokens"][0]["content"] = json!("ab".repeat(500));
    assert!(used(&json).is_ok());
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_not_read() {
    for name in ["tokenizer.json", "tokenizer.model", "tokenizer_config.json"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = Tokenizer::from_dir(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Tokenizer::from_dir(folder.path()).unwrap_err().to_string().contains("no regular file"));
    }
}

/// Pieces of every kind with likely and unlikely settings, alone and in sequences.
fn piece(random: &mut Numbers, kinds: &[&str], inner: &str, depth: usize) -> Value {
    let texts = [
        "",
        "a",
        "ab",
        " ",
        "\u{2581}",
        "##",
        "</w>",
        "\u{1f600}",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];
    let kind = kinds[random.below(kinds.len())];
    let mut text = || json!(texts[random.below(texts.len())]);
    let (from, content, prefix, suffix) = (text(), text(), text(), text());
    let regexes = [
        "",
        "a",
        "a*",
        "(a|b)+",
        "\\s+",
        "(?=a)",
        "[^ ]",
        "(",
        "(a+)+$",
        "\\p{L}+",
        "(a+)+b(?!c)",
        "(?:a|b|ab)*(?=c)",
        "\\s+(?!\\S)|\\s+",
        "(a)\\1",
        "((a{1,50}){1,50}){1,50}",
    ];
    let pattern = if random.below(2) == 0 {
        json!({"String": from})
    } else {
        json!({"Regex": regexes[random.below(regexes.len())]})
    };
    let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    let number = [0u64, 1, 2, 7, u64::from(u32::MAX)][random.below(5)];
    let flag = random.below(2) == 0;
    let mut piece = json!({
        "type": kind, "pattern": pattern, "content": content, "prepend": prefix, "prefix": prefix, "suffix": suffix,
        "behavior": behaviors[random.below(5)], "invert": flag, "add_prefix_space": flag, "trim_offsets": flag,
        "use_regex": !flag, "replacement": "\u{2581}", "prepend_scheme": (["always", "first", "never"][random.below(3)]),
        "split": flag, "delimiter": "a", "individual_digits": flag, "length": number, "start": number, "stop": 1,
        "cleanup": flag, "lowercase": flag, "strip_accents": null, "clean_text": flag, "handle_chinese_chars": flag,
        "strip_left": flag, "strip_right": true, "pad_token": "a", "word_delimiter_token": "b",
        "precompiled_charsmap": (["", "/////w==", "AAAAAA==", "BAAAAAAAAAB4AA=="][random.below(4)]),
        "sep": ["<s>", 4], "cls": ["<s>", number % 9],
        "single": [{"SpecialToken": {"id": from, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {"a": {"id": "a", "ids": [number % 9], "tokens": ["a"]}, "": {"id": "", "ids": [], "tokens": []}},
    });
    if kind == "Sequence" {
        let parts = random.below(4);
        piece[inner] = (0..parts)
            .map(|_| if depth == 0 { Value::Null } else { self::piece(random, kinds, inner, depth - 1) })
            .collect();
    }
    piece
}

/// A model of every kind with likely and unlikely settings.
fn model(random: &mut Numbers) -> Value {
    let texts = ["a", "b", "ab", " ", "<s>", "[UNK]", "##b", "\u{2581}", "<0x41>", "", "aaaaaaaa", "\u{e9}"];
    let mut text = || texts[random.below(texts.len())];
    let (unknown, prefix, suffix) = (text(), text(), text());
    let merges: Vec<Value> = (0..4).map(|_| json!([text(), text()])).collect();
    let numbers = [0u64, 1, 2, 3, 100, 256, 4_294_967_295, u64::MAX];
    let mut number = || numbers[random.below(numbers.len())];
    let (unknown_id, longest, ids) = (number(), number(), [number(), number()]);
    let flag = random.below(2) == 0;
    let vocab = json!({"a": 0, "b": 1, "ab": 2, " ": 3, unknown: ids[0] % 9, prefix: ids[1] % 40});
    match random.below(4) {
        0 => json!({"type": "BPE", "dropout": ([Value::Null, json!(0.5), json!(7.0)][random.below(3)]),
            "unk_token": unknown, "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "fuse_unk": flag,
            "byte_fallback": !flag, "ignore_merges": flag, "vocab": vocab, "merges": merges}),
        1 => json!({"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": prefix,
            "max_input_chars_per_word": longest, "vocab": vocab}),
        2 => json!({"type": "WordLevel", "unk_token": unknown, "vocab": vocab}),
        _ => {
            let scores = [json!(-1.0), json!(0.0), json!(-1e300), json!(1e300), Value::Null];
            let one = |i: usize| json!([texts[i], scores[random.below(scores.len())]]);
            let pieces: Vec<Value> = (0..texts.len()).map(one).collect();
            json!({"type": "Unigram", "unk_id": ([Value::Null, json!(unknown_id)][usize::from(flag)]),
                "byte_fallback": flag, "vocab": pieces})
        }
    }
}

/// Structure-aware: each case ends with an error or a tokenizer that works. `LAMINA_FUZZ` multiplies the cases, `LAMINA_FUZZ_SEED` takes others.
#[test]
fn any_pieces_end_in_an_error_or_a_tokenizer() {
    let stages: [(&str, &str, &[&str]); 4] = [
        (
            "normalizer",
            "normalizers",
            &[
                "Sequence",
                "BertNormalizer",
                "Strip",
                "StripAccents",
                "NFC",
                "NFD",
                "NFKC",
                "NFKD",
                "Lowercase",
                "Nmt",
                "Precompiled",
                "Replace",
                "Prepend",
                "ByteLevel",
                "Unknown",
            ],
        ),
        (
            "pre_tokenizer",
            "pretokenizers",
            &[
                "Sequence",
                "BertPreTokenizer",
                "ByteLevel",
                "Delimiter",
                "CharDelimiterSplit",
                "Metaspace",
                "Whitespace",
                "WhitespaceSplit",
                "Split",
                "Punctuation",
                "Digits",
                "UnicodeScripts",
                "FixedLength",
            ],
        ),
        (
            "post_processor",
            "processors",
            &["Sequence", "RobertaProcessing", "BertProcessing", "ByteLevel", "TemplateProcessing"],
        ),
        (
            "decoder",
            "decoders",
            &[
                "Sequence",
                "BPEDecoder",
                "ByteLevel",
                "WordPiece",
                "Metaspace",
                "CTC",
                "Replace",
                "Fuse",
                "Strip",
                "ByteFallback",
            ],
        ),
    ];
    let times: usize = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let _alone = alone();
    let mut random = Numbers::fuzz(7);
    let (mut built, mut slowest) = (0, (Duration::ZERO, String::new()));
    for _ in 0..500 * times {
        let mut json = file("decoder", Value::Null);
        for (stage, inner, kinds) in stages {
            if random.below(3) == 0 {
                json[stage] = piece(&mut random, kinds, inner, 2);
            }
        }
        if random.below(3) == 0 {
            json["model"] = model(&mut random);
        }
        let start = Instant::now();
        built += usize::from(used(&json).is_ok());
        if start.elapsed() > slowest.0 {
            slowest = (start.elapsed(), json.to_string());
        }
    }
    eprintln!("{built} of {} work; the slowest took {:?}: {}", 500 * times, slowest.0, slowest.1);
    assert!(built > 20, "{built}");
}
