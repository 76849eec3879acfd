//! Where tokenizers come from: folders and what stands in them, metadata with gaps, damaged files.

use std::path::Path;

use crate::common::{gguf, read, text};
use lamina_fixtures::{Numbers, shared};
use lamina_tokenize::{GgufVocab, Markers, Special, TiktokenEncoding, TokenizeError, Tokenizer};
use serde_json::{Value, json};

fn write(dir: &Path, name: &str, content: &str) {
    std::fs::write(dir.join(name), content).unwrap();
}

#[test]
fn folders_are_read_whatever_they_hold() {
    let Some(files) = shared("tokenizers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    assert!(Tokenizer::from_dir(dir).unwrap().is_none(), "an empty folder");
    assert!(Tokenizer::from_dir(dir.join("absent")).unwrap().is_none());

    let copy = |from: &str, to: &str| std::fs::copy(files.join(from), dir.join(to)).unwrap();
    copy("qwen.tiktoken", "qwen.tiktoken");
    let qwen = Tokenizer::from_dir(dir).unwrap().unwrap();
    assert_eq!(qwen.token_to_id("<|im_end|>"), Some(151_645));
    assert!(qwen.warnings().is_empty() && qwen.eog_ids().contains(&151_645));

    copy("gpt2.vocab.json", "vocab.json");
    copy("gpt2.merges.txt", "merges.txt");
    let gpt2 = Tokenizer::from_dir(dir).unwrap().unwrap();
    assert_eq!((gpt2.vocab_size(), gpt2.eos()), (50_257, Some(50_256)));

    copy("llama3.tokenizer.model", "tokenizer.model");
    let llama3 = Tokenizer::from_dir(dir).unwrap().unwrap();
    assert_eq!((llama3.bos(), llama3.adds_bos()), (Some(128_000), true));

    copy("llama2.tokenizer.model", "tokenizer.model");
    let llama2 = Tokenizer::from_dir(dir).unwrap().unwrap();
    assert_eq!((llama2.vocab_size(), llama2.bos(), llama2.eos()), (32_000, Some(1), Some(2)));
    assert_eq!(llama2.encode("Hello world", Special::ADD).unwrap(), [1, 15043, 3186]);

    copy("phi-3.tokenizer.json", "tokenizer.json");
    assert_eq!(Tokenizer::from_dir(dir).unwrap().unwrap().vocab_size(), 32_011);
}

#[test]
fn configurations_are_heeded() {
    let Some(files) = shared("tokenizers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::copy(files.join("llama2.tokenizer.model"), dir.join("tokenizer.model")).unwrap();
    let config = json!({
        "add_bos_token": false,
        "add_eos_token": true,
        "bos_token": { "content": "<s>" },
        "eos_token": "<|im_end|>",
        "chat_template": [{ "name": "tool_use", "template": "T" }, { "name": "default", "template": "D" }],
        "added_tokens_decoder": {
            "32000": { "content": "<|im_start|>", "special": true },
            "32001": { "content": "<|im_end|>", "special": true, "rstrip": true },
            "32002": { "content": "<tool>", "special": false },
        },
    });
    write(dir, "tokenizer_config.json", &config.to_string());
    let tokenizer = Tokenizer::from_dir(dir).unwrap().unwrap();
    assert_eq!(tokenizer.encode("a", Special::ADD).unwrap(), [263, 32_001]);
    assert_eq!(tokenizer.eog_ids(), [2, 32_001], "the file's own end stays one");
    assert_eq!(tokenizer.encode("<tool>", Special::NONE).unwrap(), [32_002], "found in plain text too");
    assert_eq!(
        tokenizer.encode("<|im_end|>\n\n", Special::PARSE).unwrap(),
        [32_001],
        "with the white space after it"
    );
    assert!(tokenizer.encode("<|im_end|>", Special::NONE).unwrap().len() > 3);
    let names: Vec<&str> = tokenizer.chat_templates().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["default", "tool_use"]);

    write(dir, "chat_template.jinja", "J");
    std::fs::create_dir(dir.join("additional_chat_templates")).unwrap();
    write(&dir.join("additional_chat_templates"), "rag.jinja", "R");
    let tokenizer = Tokenizer::from_dir(dir).unwrap().unwrap();
    let sources: Vec<&str> = tokenizer.chat_templates().iter().map(|t| t.source.as_str()).collect();
    assert_eq!(sources, ["J", "T", "R"]);

    write(dir, "tokenizer_config.json", "[]");
    let error = Tokenizer::from_dir(dir).unwrap_err().to_string();
    assert!(error.contains("tokenizer_config.json"), "{error}");
}

#[test]
fn tokens_that_only_the_configuration_names_are_found() {
    let Some(files) = shared("tokenizers") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(files.join("gpt-neox.tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let size = Tokenizer::from_dir(folder.path()).unwrap().unwrap().vocab_size() as u32;
    let config = json!({ "added_tokens_decoder": { size.to_string(): { "content": "<end_of_turn>", "special": true } } });
    write(folder.path(), "tokenizer_config.json", &config.to_string());
    let tokenizer = Tokenizer::from_dir(folder.path()).unwrap().unwrap();
    assert_eq!(tokenizer.encode("<end_of_turn>", Special::PARSE).unwrap(), [size]);
    assert!(tokenizer.encode("<end_of_turn>", Special::NONE).unwrap().len() > 2);
    assert!(tokenizer.eog_ids().contains(&size));
}

#[test]
fn lamina_tiny_begins_with_bos_by_its_configuration() {
    let Some(models) = shared("models") else { return };
    let tokenizer = Tokenizer::from_dir(models.join("lamina-tiny")).unwrap().unwrap();
    assert!(tokenizer.adds_bos() && !tokenizer.adds_eos());
    assert_eq!(tokenizer.bos(), tokenizer.token_to_id("<|endoftext|>"));
    assert_eq!(tokenizer.eog_ids(), [0]);
    let bare = tokenizer.encode("Once upon a time", Special::NONE).unwrap();
    let full = tokenizer.encode("Once upon a time", Special::ADD).unwrap();
    assert_eq!((full[0], &full[1..]), (0, &bare[..]));
    assert_eq!(tokenizer.decode(&full).unwrap(), "Once upon a time");
    assert_eq!(tokenizer.decode_with(&full, Markers::Show).unwrap(), "<|endoftext|>Once upon a time");
}

#[test]
fn stories_ids_are_those_of_its_reference() {
    let Some(models) = shared("models/stories260k") else { return };
    let reference: serde_json::Value = serde_json::from_slice(&read(models.join("reference.json"))).unwrap();
    let ids = |key: &str| serde_json::from_value::<Vec<u32>>(reference[key].clone()).unwrap();
    let folder = Tokenizer::from_dir(&models).unwrap().unwrap();
    let file = Tokenizer::from_gguf(gguf::vocab(models.join("stories260k-f32.gguf"))).unwrap();
    for tokenizer in [folder, file] {
        let prompt = reference["prompt"].as_str().unwrap();
        assert_eq!(tokenizer.encode(prompt, Special::ADD).unwrap(), ids("prompt_ids"));
        let all: Vec<u32> = ids("prompt_ids").into_iter().chain(ids("greedy_ids")).collect();
        assert!(tokenizer.decode(&all).unwrap().ends_with(reference["text"].as_str().unwrap()));
    }
}

#[test]
fn a_model_without_a_tokenizer_says_so() {
    let none = Tokenizer::from_gguf(GgufVocab { model: "none".into(), ..GgufVocab::default() }).unwrap();
    assert!(!none.is_available());
    assert!(matches!(none.encode("Hi", Special::ADD), Err(TokenizeError::NoTokenizer)));
    assert!(matches!(none.decode(&[1]), Err(TokenizeError::NoTokenizer)));
    assert_eq!((none.vocab_size(), none.eog_ids().len()), (0, 0));
}

#[test]
fn unknown_pre_tokenizers_are_named_and_unknown_models_refused() {
    let vocab = GgufVocab {
        model: "gpt2".into(),
        pre: Some("brand-new".into()),
        tokens: vec!["a".into(), "b".into(), "ab".into()],
        merges: Some(vec!["a b".into()]),
        ..GgufVocab::default()
    };
    let tokenizer = Tokenizer::from_gguf(vocab.clone()).unwrap();
    assert!(tokenizer.warnings()[0].contains("brand-new"), "{:?}", tokenizer.warnings());
    assert_eq!(tokenizer.encode("abba", Special::NONE).unwrap(), [2, 1, 0]);
    assert!(matches!(tokenizer.decode(&[7]), Err(TokenizeError::UnknownId { id: 7, size: 3 })));
    let error = Tokenizer::from_gguf(GgufVocab { model: "weird".into(), ..vocab.clone() }).unwrap_err();
    assert!(matches!(error, TokenizeError::Unsupported { .. }), "{error}");
    for damaged in [
        GgufVocab { merges: None, ..vocab.clone() },
        GgufVocab { merges: Some(vec!["ab".into()]), ..vocab.clone() },
        GgufVocab { token_types: Some(vec![1]), ..vocab.clone() },
        GgufVocab { scores: Some(vec![]), ..vocab.clone() },
        GgufVocab { tokens: vec![], ..vocab.clone() },
        GgufVocab { model: "t5".into(), precompiled_charsmap: Some(vec![9, 9]), ..vocab.clone() },
        GgufVocab { model: "plamo2".into(), ..vocab.clone() },
    ] {
        let error = Tokenizer::from_gguf(damaged).unwrap_err().to_string();
        assert!(error.len() > 20, "{error}");
    }
    let far = Tokenizer::from_gguf(GgufVocab { bos: Some(99), eos: Some(1), ..vocab }).unwrap();
    assert_eq!((far.bos(), far.eos(), far.warnings().len()), (None, Some(1), 2));
}

#[test]
fn damaged_files_are_errors_not_panics() {
    let Some(files) = shared("tokenizers") else { return };
    let model = read(files.join("llama2.tokenizer.model"));
    let ranks = read(files.join("qwen.tiktoken"));
    let qwen = TiktokenEncoding::named("qwen").unwrap();
    let mut random = Numbers::seeded(15);
    for _ in 0..60 {
        let mut damaged = model[..random.below(20_000)].to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(damaged.len().max(1));
            damaged.get_mut(at).into_iter().for_each(|byte| *byte = 0xff);
        }
        if let Ok(tokenizer) = Tokenizer::from_sentencepiece(&damaged) {
            let _ = tokenizer.encode("Hello \u{1f600}", Special::ADD_AND_PARSE);
        }
    }
    for damaged in [&ranks[..1000], &ranks[7..], b"", b"AA== x", b"AA== 99999999999", b"\xff\xfe"] {
        assert!(Tokenizer::from_tiktoken(damaged, &qwen, &[]).is_err());
    }
    for damaged in ["", "{}", "[]", "{\"model\": 3}", "{\"version\": \"1.0\"}"] {
        assert!(Tokenizer::from_hf_json(damaged.as_bytes()).is_err(), "{damaged}");
    }
    for (vocab, merges) in [("{}", "a"), ("[]", ""), ("{\"a\": -1}", ""), ("{\"a\": 1, \"b\": 1}", "")] {
        assert!(Tokenizer::from_gpt2(vocab, merges).is_err(), "{vocab} {merges}");
    }
}

/// What the `tokenizers` library itself decodes.
#[test]
fn tokenizer_json_decodes_as_its_library_does() {
    let (Some(files), Some(models)) = (shared("tokenizers"), shared("models")) else { return };
    let mut paths: Vec<_> =
        ["phi-2", "phi-3", "gpt-neox"].map(|n| files.join(format!("{n}.tokenizer.json"))).into();
    paths.push(models.join("lamina-tiny/tokenizer.json"));
    let mut random = Numbers::seeded(16);
    for path in paths {
        let library = tokenizers::Tokenizer::from_file(&path).unwrap();
        let ours = Tokenizer::from_hf_json(&read(&path)).unwrap();
        for _ in 0..1_000 {
            let text = text(&mut random);
            let ids = library.encode(text.as_str(), false).unwrap().get_ids().to_vec();
            assert_eq!(ours.encode(&text, Special::PARSE).unwrap(), ids, "{}: {text:?}", path.display());
            let expected = library.decode(&ids, true).unwrap();
            assert_eq!(ours.decode(&ids).unwrap(), expected, "{}: {ids:?}", path.display());
        }
        assert_eq!(ours.vocab_size(), library.get_vocab_size(true));
    }
}

/// A `tokenizer.json` with another part in the place of `key`.
fn patched_json(key: &str, part: Value) -> Option<Vec<u8>> {
    let mut json: Value =
        serde_json::from_slice(&read(shared("tokenizers")?.join("phi-3.tokenizer.json"))).unwrap();
    json[key] = part;
    Some(json.to_string().into_bytes())
}

#[test]
fn the_post_processor_says_what_goes_around_a_text() {
    let special =
        |text: &str, id: u32| (text.to_owned(), json!({ "id": text, "ids": [id], "tokens": [text] }));
    let single = json!([
        { "SpecialToken": { "id": "<s>", "type_id": 0 } },
        { "Sequence": { "id": "A", "type_id": 0 } },
        { "SpecialToken": { "id": "</s>", "type_id": 0 } },
    ]);
    let tokens: serde_json::Map<String, Value> =
        [special("<s>", 1), special("</s>", 2)].into_iter().collect();
    let part =
        json!({ "type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens });
    let Some(json) = patched_json("post_processor", part) else { return };
    let tokenizer = Tokenizer::from_hf_json(&json).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert!(tokenizer.adds_bos() && tokenizer.adds_eos());
    let bare = tokenizer.encode("Hello", Special::NONE).unwrap();
    assert_eq!(tokenizer.encode("Hello", Special::ADD).unwrap(), [&[1], &bare[..], &[2]].concat());
    assert_eq!(tokenizer.encode("", Special::ADD).unwrap(), [1, 2]);
    // A prompt ends where the answer begins.
    assert_eq!(tokenizer.encode_chat("Hello", None).unwrap(), [&[1], &bare[..]].concat());
    assert_eq!(tokenizer.encode_chat("<s>Hello", None).unwrap()[..2], [1, bare[0]]);
}

#[test]
fn truncation_and_padding_left_in_a_file_are_ignored() {
    let part = json!({ "max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right" });
    let Some(json) = patched_json("truncation", part) else { return };
    let tokenizer = Tokenizer::from_hf_json(&json).unwrap();
    assert!(tokenizer.encode("one two three four five six", Special::ADD).unwrap().len() > 3);
}

#[test]
fn an_unknown_decoder_is_named() {
    let Some(json) = patched_json(
        "decoder",
        json!({ "type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true }),
    ) else {
        return;
    };
    let tokenizer = Tokenizer::from_hf_json(&json).unwrap();
    assert!(tokenizer.warnings()[0].contains("CTC"), "{:?}", tokenizer.warnings());
}
