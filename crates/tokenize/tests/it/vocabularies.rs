//! Every vocabulary file of the shared folder against the ids that stand beside it, and against the same tokenizer
//! from other sources.

use std::path::PathBuf;

use crate::common::{gguf, read, read_text, text};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{Special, TiktokenEncoding, Tokenizer};

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn from_gguf(path: PathBuf) -> Tokenizer {
    Tokenizer::from_gguf(gguf::vocab(path)).unwrap()
}

/// (text, ids) of every case beside a vocabulary file.
fn cases(path: &std::path::Path) -> Vec<(String, Vec<u32>)> {
    let beside = |extension: &str| format!("{}.{extension}", path.display());
    let input = read_text(beside("inp"));
    let output = read_text(beside("out"));
    let ids = output.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect());
    // The separator also follows the last text.
    let texts: Vec<String> =
        input.strip_suffix(SEPARATOR).unwrap().split(SEPARATOR).map(str::to_owned).collect();
    let ids: Vec<Vec<u32>> = ids.collect();
    assert_eq!(texts.len(), ids.len(), "{}", path.display());
    texts.into_iter().zip(ids).collect()
}

#[test]
fn all_published_cases_match() {
    let Some(dir) = shared("vocab") else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        let tokenizer = from_gguf(path.clone());
        assert!(tokenizer.warnings().is_empty(), "{}: {:?}", path.display(), tokenizer.warnings());
        for (text, expected) in cases(&path) {
            let ids = tokenizer.encode(&text, Special::NONE).unwrap();
            assert_eq!(ids, expected, "{}: {text:?}", path.display());
        }
        files += 1;
    }
    assert_eq!(files, 10);
}

/// Both give the same ids and texts, and their first `tokens` ids the same bytes. (Beyond the ordinary tokens the
/// sources are of different dates and name their reserved tokens differently.)
fn assert_same(name: &str, a: &Tokenizer, b: &Tokenizer, special: Special, tokens: u32) {
    let mut random = Numbers::seeded(7);
    for _ in 0..2_000 {
        let text = text(&mut random);
        let (left, right) = (a.encode(&text, special).unwrap(), b.encode(&text, special).unwrap());
        assert_eq!(left, right, "{name}: {text:?}");
        assert_eq!(a.decode(&left).unwrap(), b.decode(&right).unwrap(), "{name}: {text:?}");
    }
    for id in 0..tokens {
        assert_eq!(a.token_bytes(id), b.token_bytes(id), "{name}: {id}");
        assert_eq!(a.id_to_token(id), b.id_to_token(id), "{name}: {id}");
    }
}

fn tiktoken(name: &str, file: &str) -> Option<Tokenizer> {
    let path = shared("tokenizers")?.join(file);
    Some(Tokenizer::from_tiktoken(&read(path), &TiktokenEncoding::named(name).unwrap(), &[]).unwrap())
}

#[test]
fn llama3_is_the_same_from_gguf_and_from_tiktoken() {
    let (Some(dir), Some(ranks)) = (shared("vocab"), tiktoken("llama3", "llama3.tokenizer.model")) else {
        return;
    };
    let gguf = from_gguf(dir.join("ggml-vocab-llama-bpe.gguf"));
    assert_same("llama3", &gguf, &ranks, Special::NONE, 128_000);
    assert_eq!(gguf.bos(), ranks.bos());
    assert_eq!(gguf.eos(), ranks.eos());
    assert!(gguf.adds_bos() && ranks.adds_bos());
    assert_eq!(gguf.eog_ids(), [128_001, 128_009]);
    // The file is of Llama 3.1, which has a third end: <|eom_id|>.
    assert_eq!(ranks.eog_ids(), [128_001, 128_008, 128_009]);
}

#[test]
fn qwen_is_the_same_from_gguf_and_from_tiktoken() {
    let (Some(dir), Some(ranks)) = (shared("vocab"), tiktoken("qwen", "qwen.tiktoken")) else { return };
    let gguf = from_gguf(dir.join("ggml-vocab-qwen2.gguf"));
    assert_same("qwen2", &gguf, &ranks, Special::NONE, 151_643);
}

#[test]
fn llama2_is_the_same_from_gguf_and_from_sentencepiece() {
    let (Some(dir), Some(models)) = (shared("vocab"), shared("tokenizers")) else { return };
    let gguf = from_gguf(dir.join("ggml-vocab-llama-spm.gguf"));
    let model = Tokenizer::from_sentencepiece(&read(models.join("llama2.tokenizer.model"))).unwrap();
    assert_same("llama2", &gguf, &model, Special::NONE, 32_000);
    assert_same("llama2", &gguf, &model, Special::ADD_AND_PARSE, 32_000);
}

#[test]
fn gpt2_is_the_same_from_gguf_and_from_its_own_files() {
    let (Some(dir), Some(files)) = (shared("vocab"), shared("tokenizers")) else { return };
    let gguf = from_gguf(dir.join("ggml-vocab-gpt-2.gguf"));
    let vocab = read_text(files.join("gpt2.vocab.json"));
    let own = Tokenizer::from_gpt2(&vocab, &read_text(files.join("gpt2.merges.txt"))).unwrap();
    assert_same("gpt2", &gguf, &own, Special::NONE, 50_257);
    assert_same("gpt2", &gguf, &own, Special::PARSE, 50_257);
}

#[test]
fn phi3_is_the_same_from_gguf_and_from_tokenizer_json() {
    let (Some(dir), Some(files)) = (shared("vocab"), shared("tokenizers")) else { return };
    let gguf = from_gguf(dir.join("ggml-vocab-phi-3.gguf"));
    let json = Tokenizer::from_hf_json(&read(files.join("phi-3.tokenizer.json"))).unwrap();
    assert_same("phi-3", &gguf, &json, Special::NONE, 32_000);
}
