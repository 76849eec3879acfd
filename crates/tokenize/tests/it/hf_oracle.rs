//! `tokenizer.json` beside Hugging Face's own library: every file of the shared folder, and made-up ones with every stage and
//! setting that the format has. `LAMINA_FUZZ` multiplies the made-up ones, `LAMINA_FUZZ_SEED` takes others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::common::{read, text};
use crate::long_text::in_parts;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{Special, Tokenizer};
use serde_json::{Value, json};
use tokenizers::Tokenizer as Library;

/// The library's tokenizer; None where it refuses the file, or panics.
fn library(json: &[u8]) -> Option<Library> {
    let built = catch_unwind(|| Library::from_bytes(json)).ok()?;
    let mut library = built.ok()?;
    library.with_truncation(None).ok()?;
    library.with_padding(None);
    Some(library)
}

/// The library's ids; None where it fails.
fn wanted(library: &mut Library, text: &str, special: Special) -> Option<Vec<u32>> {
    library.set_encode_special_tokens(!special.parse);
    let encode = AssertUnwindSafe(|| library.encode_fast(text, special.add));
    Some(catch_unwind(encode).ok()?.ok()?.get_ids().to_vec())
}

/// Whether two added tokens are the same once they are normalized: which of them the library finds is chance.
fn is_chance(library: &Library) -> bool {
    let added = library.get_added_tokens_decoder();
    let normalized = added.iter().filter(|(_, token)| token.normalized);
    let mut texts: Vec<_> = normalized.filter_map(|(&id, _)| library.id_to_token(id)).collect();
    let all = texts.len();
    texts.sort();
    texts.dedup();
    texts.len() < all
}

/// The first text of which both make different tokens.
fn difference(library: &mut Library, ours: &Tokenizer, texts: &[String]) -> Option<String> {
    for text in texts {
        for special in [Special::NONE, Special::PARSE] {
            // Where the library panics, or takes an error for the end of all matches, anything is better.
            let Some(want) = wanted(library, text, special) else { continue };
            let have = ours.encode(text, special);
            if let Ok(whole) = &have {
                let bytes = 1 + text.len() % 7;
                assert_eq!(&in_parts(ours, text, special, bytes).0, whole, "in parts of {bytes}: {text:?}");
            }
            if have.as_ref().ok() != Some(&want) {
                return Some(format!("{special:?} {text:?}\n  ours {have:?}\n their {want:?}"));
            }
        }
    }
    None
}

/// Calls `check` with every `tokenizer.json` below a folder.
fn each_file(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => each_file(&path, found),
            false if path.to_string_lossy().ends_with("tokenizer.json") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn published_files_give_the_librarys_ids() {
    let (Some(root), Some(corpus)) = (shared("tokenizers"), shared("text")) else { return };
    let mut files = Vec::new();
    each_file(root.parent().unwrap(), &mut files);
    let mut random = Numbers::fuzz(51);
    let mut texts: Vec<String> = (0..400).map(|_| text(&mut random)).collect();
    texts.extend(["", " ", "\n", "a", " <s> </s>  <|endoftext|> x<unk>"].map(String::from));
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file()
            && let Ok(text) = String::from_utf8(read(&path))
        {
            texts.push(text.chars().take(20_000).collect());
        }
    }
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let json = read(&path);
        let ours = Tokenizer::from_hf_json(&json).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let wrong = difference(&mut library(&json).unwrap(), &ours, &texts);
        assert_eq!(wrong, None, "{}", path.display());
    }
}

/// Words of several scripts.
const WORDS: &[&str] =
    &["the", "he", "hello", "world", "unable", "123", "\u{e9}t\u{e9}", "\u{4f60}\u{597d}", "Stra\u{df}e"];

/// One of the four models over a small vocabulary.
fn model(random: &mut Numbers, space: &str) -> Value {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "[UNK]", space].map(String::from).to_vec();
    let chars = (33..127u8).map(char::from).chain("\u{e9}\u{df}\u{4f60}\u{301}\u{2581}".chars());
    tokens.extend(chars.map(String::from));
    tokens.extend((0..=255u8).map(|b| byte_char(b).to_string()).filter(|_| random.below(30) > 0));
    if random.below(2) == 0 {
        tokens.extend((0..=255u8).map(|b| format!("<0x{b:02X}>")));
    }
    let prefix = *random.pick(&["", "##", "@"]);
    tokens.extend(('a'..='z').filter(|_| random.below(9) > 0).map(|c| format!("{prefix}{c}")));
    tokens.extend(WORDS.iter().map(|word| (*word).to_owned()));
    match random.below(4) {
        0 | 1 => bpe(random, tokens, prefix, space),
        2 => {
            tokens.extend(
                ["##llo", "##able", "un", "##23", "hel", "wor", "##ld"].map(|t| t.replace("##", prefix)),
            );
            let (ids, longest) = (ids(tokens), *random.pick(&[100, 6, 4]));
            match random.below(3) {
                0 => json!({"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"}),
                _ => json!({"type": "WordPiece", "vocab": ids, "unk_token": "[UNK]",
                    "continuing_subword_prefix": prefix, "max_input_chars_per_word": longest}),
            }
        }
        _ => {
            tokens.extend(["hel", "lo", "he", "ll", "wor", "ld", "th"].map(String::from));
            tokens.extend(WORDS.iter().map(|word| format!("{space}{word}")));
            let list: Vec<Value> =
                tokens.iter().map(|t| json!([t, -(random.below(40) as f64) / 4.0])).collect();
            let unknown = if random.below(6) == 0 { Value::Null } else { json!(0) };
            json!({"type": "Unigram", "vocab": list, "unk_id": unknown, "byte_fallback": random.below(2) == 0})
        }
    }
}

fn bpe(random: &mut Numbers, mut tokens: Vec<String>, prefix: &str, space: &str) -> Value {
    let suffix = *random.pick(&["", "", "</w>"]);
    tokens.extend(('a'..='z').map(|c| format!("{c}{suffix}")));
    tokens.extend(('a'..='z').map(|c| format!("{prefix}{c}{suffix}")));
    let mut merges: Vec<(String, String)> = Vec::new();
    for _ in 0..random.below(60) {
        let left = random.pick(&tokens).clone();
        let right = random.pick(&tokens).clone();
        if !right.starts_with(prefix) || left.len() + right.len() > 12 {
            continue;
        }
        tokens.push(format!("{left}{}", &right[prefix.len()..]));
        merges.push((left, right));
    }
    for (left, right) in [("t", "h"), ("th", "e"), ("h", "e"), ("l", "l"), (space, "t"), (space, "the")] {
        let right = format!("{prefix}{right}");
        tokens.extend([left.to_owned(), right.clone(), format!("{left}{}", &right[prefix.len()..])]);
        merges.insert(random.below(merges.len() + 1), (left.to_owned(), right));
    }
    let spaced = merges.iter().any(|(left, right)| left.contains(' ') || right.contains(' '));
    let merges: Vec<Value> = match random.below(2) {
        0 if !spaced => merges.iter().map(|(left, right)| json!(format!("{left} {right}"))).collect(),
        _ => merges.iter().map(|(left, right)| json!([left, right])).collect(),
    };
    let or_none = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let unknown = or_none(["<unk>", "", "[UNK]"][random.below(3)]);
    let (prefix, suffix) = (or_none(prefix), or_none(suffix));
    json!({"type": "BPE", "dropout": ([Value::Null, json!(0.0)][random.below(2)]), "unk_token": unknown,
        "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix,
        "fuse_unk": random.below(2) == 0, "byte_fallback": random.below(2) == 0,
        "ignore_merges": random.below(3) == 0, "vocab": ids(tokens), "merges": merges})
}

fn ids(tokens: Vec<String>) -> Value {
    let mut seen = serde_json::Map::new();
    for token in tokens {
        let id = seen.len();
        seen.entry(token).or_insert(json!(id));
    }
    Value::Object(seen)
}

fn byte_char(byte: u8) -> char {
    let printable = |b: &u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match printable(&byte) {
        true => char::from(byte),
        false => char::from_u32(0x100 + (0..byte).filter(|b| !printable(b)).count() as u32).unwrap(),
    }
}

fn pattern(random: &mut Numbers) -> Value {
    const REGEXES: &[&str] = &[
        r"\s+",
        r"\p{L}+",
        r"[^\s]",
        "a",
        "l+",
        r"\d",
        r"'s| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        " {2,}",
        "^h|o$",
        r"\b",
        "x*",
    ];
    match random.below(3) {
        0 => json!({"String": random.pick(&["a", " ", "ll", "\u{2581}", "the", "."])}),
        _ => json!({"Regex": random.pick(REGEXES)}),
    }
}

fn normalizer(random: &mut Numbers, depth: usize) -> Value {
    let kinds = [
        "BertNormalizer",
        "Strip",
        "StripAccents",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "Nmt",
        "Replace",
        "Prepend",
        "ByteLevel",
        "Precompiled",
        "Sequence",
    ];
    let mut flag = || random.below(2) == 0;
    let (a, b, c, d) = (flag(), flag(), flag(), flag());
    let kind = kinds[random.below(if depth == 0 { 13 } else { 14 })];
    match kind {
        "BertNormalizer" => json!({"type": kind, "clean_text": a, "handle_chinese_chars": b, "lowercase": c,
            "strip_accents": ([Value::Null, json!(d)][random.below(2)])}),
        "Strip" => json!({"type": kind, "strip_left": a, "strip_right": b}),
        "Replace" => {
            json!({"type": kind, "pattern": pattern(random), "content": random.pick(&["", "_", "\u{2581}", " ", "\u{e9}b"])})
        }
        "Prepend" => json!({"type": kind, "prepend": random.pick(&["\u{2581}", " ", "ab"])}),
        "Precompiled" => json!({"type": kind, "precompiled_charsmap": charsmap()}),
        "Sequence" => {
            let parts: Vec<Value> = (0..random.below(4)).map(|_| normalizer(random, depth - 1)).collect();
            json!({"type": kind, "normalizers": parts})
        }
        _ => json!({"type": kind}),
    }
}

/// A map of SentencePiece with entries of several lengths, one within another, and one for nothing.
fn charsmap() -> String {
    let entries = [
        ("\u{fb01}", "fi"),
        ("\u{ff21}", "A"),
        ("e\u{301}", "\u{e9}"),
        ("\u{e9}", "e"),
        ("\t", " "),
        ("\u{2026}", "..."),
        ("\u{200b}", ""),
        ("\u{4f60}", "ni"),
        ("l", "L"),
        ("ll", "x"),
    ];
    let (mut texts, mut keys) = (Vec::new(), Vec::new());
    for (key, text) in entries {
        keys.push((key.as_bytes(), texts.len() as u32));
        texts.extend(text.bytes().chain([0]));
    }
    let mut units: Vec<Option<u32>> = vec![None; 4096];
    units[0] = Some(0);
    place(&mut units, 0, &keys);
    let trie: Vec<u8> = units.into_iter().flat_map(|unit| unit.unwrap_or(0).to_le_bytes()).collect();
    STANDARD.encode([&(trie.len() as u32).to_le_bytes()[..], &trie, &texts].concat())
}

/// Puts what follows a node into a double array.
fn place(units: &mut Vec<Option<u32>>, at: usize, keys: &[(&[u8], u32)]) {
    let mut labels: Vec<u8> = keys.iter().map(|(key, _)| key.first().copied().unwrap_or(0)).collect();
    labels.sort_unstable();
    labels.dedup();
    let is_free = |units: &[Option<u32>], offset: usize| {
        labels.iter().all(|label| units[at ^ offset ^ usize::from(*label)].is_none())
    };
    let offset = (1..2048).find(|&offset| is_free(units, offset)).unwrap();
    let leaf = keys.iter().find(|(key, _)| key.is_empty());
    let own = units[at].unwrap_or(0) | (offset as u32) << 10 | u32::from(leaf.is_some()) << 8;
    units[at] = Some(own);
    labels.iter().for_each(|label| units[at ^ offset ^ usize::from(*label)] = Some(u32::from(*label)));
    if let Some((_, value)) = leaf {
        units[at ^ offset] = Some(value | 1 << 31);
    }
    for label in labels.into_iter().filter(|label| *label != 0) {
        let below: Vec<(&[u8], u32)> =
            keys.iter().filter_map(|(key, value)| Some((key.strip_prefix(&[label])?, *value))).collect();
        place(units, at ^ offset ^ usize::from(label), &below);
    }
}

fn pre_tokenizer(random: &mut Numbers, depth: usize) -> Value {
    let kinds = [
        "BertPreTokenizer",
        "ByteLevel",
        "CharDelimiterSplit",
        "Metaspace",
        "Whitespace",
        "WhitespaceSplit",
        "Split",
        "Split",
        "Punctuation",
        "Digits",
        "UnicodeScripts",
        "FixedLength",
        "Metaspace",
        "Sequence",
    ];
    let mut flag = || random.below(2) == 0;
    let (a, b) = (flag(), flag());
    let kind = kinds[random.below(if depth == 0 { 13 } else { 14 })];
    let behavior =
        *random.pick(&["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]);
    match kind {
        "ByteLevel" => json!({"type": kind, "add_prefix_space": a, "trim_offsets": true, "use_regex": b}),
        "CharDelimiterSplit" => json!({"type": kind, "delimiter": random.pick(&["l", " ", "\u{e9}"])}),
        "Metaspace" => json!({"type": kind, "replacement": random.pick(&["\u{2581}", "_"]), "split": a,
            "prepend_scheme": random.pick(&["first", "always", "never"])}),
        "Split" => json!({"type": kind, "pattern": pattern(random), "behavior": behavior, "invert": a}),
        "Punctuation" => json!({"type": kind, "behavior": behavior}),
        "Digits" => json!({"type": kind, "individual_digits": a}),
        "FixedLength" => json!({"type": kind, "length": 1 + random.below(5)}),
        "Sequence" => {
            let parts: Vec<Value> = (0..random.below(4)).map(|_| pre_tokenizer(random, depth - 1)).collect();
            json!({"type": kind, "pretokenizers": parts})
        }
        _ => json!({"type": kind}),
    }
}

fn post_processor(random: &mut Numbers) -> Value {
    let (cls, sep) = (json!(["<s>", 1]), json!(["[UNK]", 2]));
    let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let token = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let template = json!({"type": "TemplateProcessing", "single": [token, text("A")],
        "pair": [token, text("A"), token, text("B")],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 2], "tokens": ["<s>", "[UNK]"]}}});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
    match random.below(6) {
        0 => json!({"type": "BertProcessing", "cls": cls, "sep": sep}),
        1 => {
            json!({"type": "RobertaProcessing", "cls": cls, "sep": sep, "trim_offsets": true, "add_prefix_space": false})
        }
        2 => template,
        3 => json!({"type": "Sequence", "processors": [bytes, template]}),
        4 => bytes,
        _ => Value::Null,
    }
}

fn added(random: &mut Numbers) -> Vec<Value> {
    let contents = ["<s>", "<|end|>", "the", "ll", "Hello", " x", "\u{e9}", "[UNK]", "wor", "123", "<s>the"];
    let mut chosen: Vec<&str> = contents.into_iter().filter(|_| random.below(4) == 0).collect();
    chosen.dedup();
    let mut flag = || random.below(3) == 0;
    let one = |(id, content): (usize, &str)| {
        json!({"id": 5000 + id, "content": content, "single_word": flag(), "lstrip": flag(), "rstrip": flag(),
            "normalized": flag(), "special": flag()})
    };
    chosen.into_iter().enumerate().map(one).collect()
}

fn file(random: &mut Numbers) -> Value {
    let space = *random.pick(&["\u{2581}", "\u{120}", " "]);
    let or_null = |value: Value, random: &mut Numbers| if random.below(3) == 0 { Value::Null } else { value };
    let (normal, cuts) = (normalizer(random, 2), pre_tokenizer(random, 2));
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added(random),
        "normalizer": or_null(normal, random), "pre_tokenizer": or_null(cuts, random),
        "post_processor": post_processor(random), "decoder": null, "model": model(random, space)})
}

#[test]
fn made_up_files_give_the_librarys_ids() {
    let times: usize = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut random = Numbers::fuzz(52);
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..400 * times {
        let json = file(&mut random);
        let bytes = json.to_string();
        let texts: Vec<String> =
            (0..12).map(|_| text(&mut random) + WORDS[random.below(WORDS.len())]).collect();
        let ours = Tokenizer::from_hf_json(bytes.as_bytes());
        match (library(bytes.as_bytes()), ours) {
            (Some(library), Ok(_)) if is_chance(&library) => {}
            (Some(mut library), Ok(ours)) => {
                let wrong = difference(&mut library, &ours, &texts);
                let shown = |stage: &str| json[stage].to_string();
                let stages = ["normalizer", "pre_tokenizer", "post_processor", "added_tokens"].map(shown);
                assert_eq!(
                    wrong,
                    None,
                    "{stages:#?} {}",
                    bytes.chars().rev().take(900).collect::<Vec<_>>().iter().rev().collect::<String>()
                );
                compared += 1;
            }
            (None, Err(_)) => refused += 1,
            (Some(_), Err(e)) => {
                let known = ["nothing is left of added token", "bytes of one", "looks ahead", "not followed"];
                assert!(known.iter().any(|word| e.to_string().contains(word)), "{e}: {bytes}");
                refused += 1;
            }
            (None, Ok(_)) => {}
        }
    }
    eprintln!("{compared} compared, {refused} refused");
    assert!(compared > refused && compared > 300 * times / 2, "{compared} compared, {refused} refused");
}
