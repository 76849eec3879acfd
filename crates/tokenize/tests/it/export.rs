//! Tokenizers of folders as GGUF keys: the same ids from both.

use lamina_tokenize::{GgufVocab, Special, Tokenizer};
use std::fs;
use std::path::Path;

/// Folders made of published files: what is copied where, the kind and family that it must become.
const CASES: &[(&str, &str, &str, Option<&str>)] = &[
    ("tokenizers/gpt-neox.tokenizer.json", "tokenizer.json", "gpt2", Some("gpt-2")),
    ("tokenizers/phi-2.tokenizer.json", "tokenizer.json", "gpt2", Some("gpt-2")),
    ("tokenizers/phi-3.tokenizer.json", "tokenizer.json", "llama", None),
    ("tokenizers/llama2.tokenizer.model", "tokenizer.model", "llama", None),
    ("tokenizers/llama3.tokenizer.model", "tokenizer.model", "gpt2", Some("llama3")),
    ("tokenizers/qwen.tiktoken", "qwen.tiktoken", "gpt2", Some("qwen2")),
    ("tokenizers/o200k_base.tiktoken", "o200k.tiktoken", "gpt2", Some("gpt-4o")),
    ("models/lamina-tiny/tokenizer.json", "tokenizer.json", "gpt2", Some("gpt-2")),
    ("models/stories260k/tokenizer.model", "tokenizer.model", "llama", None),
];

#[test]
fn folders_and_their_gguf_form_give_the_same_ids() {
    let Some(shared) = lamina_fixtures::shared("tokenizers") else { return };
    let shared = shared.parent().unwrap().to_owned();
    let text = fs::read_to_string(shared.join("text/tinystories-val.txt")).unwrap();
    let text = &text[..20_000];
    for (file, name, kind, pre) in CASES {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(shared.join(file), dir.path().join(name)).unwrap();
        same(dir.path(), file, kind, *pre, text);
    }
}

fn same(dir: &Path, file: &str, kind: &str, pre: Option<&str>, text: &str) {
    let tokenizer = Tokenizer::from_dir(dir).unwrap().unwrap();
    let size = tokenizer.vocab_size() + 3;
    let (vocab, notes) = GgufVocab::from_dir(dir, size).unwrap().unwrap();
    assert_eq!(notes, Vec::<String>::new(), "{file}");
    assert_eq!((vocab.model.as_str(), vocab.tokens.len()), (kind, size), "{file}");
    if pre.is_some() {
        assert_eq!(vocab.pre.as_deref(), pre, "{file}");
    }
    let written = Tokenizer::from_gguf(vocab).unwrap();
    let want = tokenizer.encode(text, Special::ADD).unwrap();
    assert_eq!(written.encode(text, Special::ADD).unwrap(), want, "{file}");
    assert_eq!(written.decode(&want).unwrap(), tokenizer.decode(&want).unwrap(), "{file}");
}
