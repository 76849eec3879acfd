//! Streams of tokens, folders, hostile files, threads: what holds for every tokenizer.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Random, gguf, read, read_text, shared};
use lamina_text::{
    ChatTemplate, Conversation, DefaultTemplate, GgufVocab, Markers, Special, StreamDecoder, TextError,
    TiktokenEncoding, TokenKind, Tokenizer,
};
use serde_json::json;

/// One tokenizer of each kind.
fn every_kind() -> Vec<(&'static str, Tokenizer)> {
    let (Some(vocab), Some(files), Some(models)) = (shared("vocab"), shared("tokenizers"), shared("models"))
    else {
        return Vec::new();
    };
    let gguf = |name: &str| {
        Tokenizer::from_gguf(gguf::vocab(vocab.join(format!("ggml-vocab-{name}.gguf")))).unwrap()
    };
    let json =
        |name: &str| Tokenizer::from_hf_json(&read(files.join(format!("{name}.tokenizer.json")))).unwrap();
    let qwen = TiktokenEncoding::named("qwen").unwrap();
    let gpt2 = (read_text(files.join("gpt2.vocab.json")), read_text(files.join("gpt2.merges.txt")));
    vec![
        ("llama-spm", gguf("llama-spm")),
        ("llama-bpe", gguf("llama-bpe")),
        ("bert", gguf("bert-bge")),
        ("phi-3 json", json("phi-3")),
        ("phi-2 json", json("phi-2")),
        ("neox json", json("gpt-neox")),
        ("qwen", Tokenizer::from_tiktoken(&read(files.join("qwen.tiktoken")), &qwen, &[]).unwrap()),
        ("llama2", Tokenizer::from_sentencepiece(&read(files.join("llama2.tokenizer.model"))).unwrap()),
        ("stories", Tokenizer::from_dir(models.join("stories260k")).unwrap().unwrap()),
        ("lamina-tiny", Tokenizer::from_dir(models.join("lamina-tiny")).unwrap().unwrap()),
        ("gpt2", Tokenizer::from_gpt2(&gpt2.0, &gpt2.1).unwrap()),
    ]
}

#[test]
fn streamed_pieces_together_are_the_decoded_text() {
    let mut random = Random(11);
    for (name, tokenizer) in every_kind() {
        for round in 0..400 {
            // Random ids break characters apart; ids of a text keep them whole.
            let ids: Vec<u32> = if round % 2 == 0 {
                (0..random.below(30)).map(|_| random.below(tokenizer.vocab_size()) as u32).collect()
            } else {
                tokenizer.encode(&random.text(), Special::ADD).unwrap()
            };
            for markers in [Markers::Hide, Markers::Show] {
                let mut stream = StreamDecoder::new(&tokenizer, markers);
                let mut text: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
                text += &stream.finish();
                assert_eq!(text, tokenizer.decode_with(&ids, markers).unwrap(), "{name}: {ids:?}");
            }
        }
    }
}

#[test]
fn texts_survive_encoding() {
    let mut random = Random(12);
    // BERT and GPT-NeoX (NFC) normalize; in these two no text is lost.
    let lossless =
        ["llama-spm", "llama-bpe", "qwen", "llama2", "gpt2", "lamina-tiny", "phi-3 json", "phi-2 json"];
    for (name, tokenizer) in every_kind().iter().filter(|(name, _)| lossless.contains(name)) {
        for _ in 0..500 {
            // SentencePiece cannot tell U+2581 from a space.
            let text = random.text().replace('\u{2581}', "");
            let ids = tokenizer.encode(&text, Special::ADD).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{name}: {ids:?}");
        }
    }
}

#[test]
fn a_character_is_given_out_when_it_is_whole() {
    let Some(files) = shared("tokenizers") else { return };
    let cl100k = TiktokenEncoding::named("cl100k_base").unwrap();
    let tokenizer =
        Tokenizer::from_tiktoken(&read(files.join("cl100k_base.tiktoken")), &cl100k, &[]).unwrap();
    let byte = |byte: u8| (0..256).find(|&id| tokenizer.token_bytes(id) == Some(&[byte])).unwrap();
    let pieces = |bytes: &[u8]| {
        let mut stream = StreamDecoder::new(&tokenizer, Markers::Hide);
        let mut pieces: Vec<String> = bytes.iter().map(|&b| stream.push(byte(b)).unwrap()).collect();
        pieces.push(stream.finish());
        pieces
    };
    assert_eq!(pieces("\u{1f600}".as_bytes()), ["", "", "", "\u{1f600}", ""]);
    // 0xff never begins a character; 0xe2 0x28 never becomes one; 0xf0 0x9f may.
    assert_eq!(pieces(b"\xff"), ["\u{fffd}", ""]);
    assert_eq!(pieces(b"\xe2("), ["", "\u{fffd}(", ""]);
    assert_eq!(pieces(b"\xf0\x9f"), ["", "", "\u{fffd}"]);
    assert_eq!(pieces(b"\xc3\xc3\xa9"), ["", "\u{fffd}", "\u{e9}", ""]);
}

#[test]
fn control_tokens_in_a_strangers_text_stay_text() {
    for (name, tokenizer) in every_kind() {
        for end in ["<|eot_id|>", "</s>", "<|im_end|>", "<|endoftext|>", "<s>", "[SEP]", "<|end|>", "<0x0A>"]
        {
            let ids = tokenizer.encode(&format!("a {end} b"), Special::NONE).unwrap();
            let control = ids.iter().any(|&id| tokenizer.kind(id) == Some(TokenKind::Control));
            assert!(!control, "{name}: {end} became {ids:?}");
            assert!(!tokenizer.decode(&ids).unwrap().contains('\n'), "{name}: {end} became {ids:?}");
        }
    }
}

#[test]
fn long_single_words_take_linear_time() {
    let texts =
        ["a".repeat(10_000_000), " ".repeat(2_000_000), "\u{4e2d}".repeat(1_000_000), "7".repeat(2_000_000)];
    for (name, tokenizer) in every_kind() {
        for text in &texts {
            // The `tokenizers` library is another's; a tenth shows whether it is quadratic.
            let part =
                if name.contains("json") || name == "lamina-tiny" { text.len() / 30 * 3 } else { text.len() };
            let start = std::time::Instant::now();
            let ids = tokenizer.encode(&text[..part], Special::NONE).unwrap();
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{name}: {part} bytes of {:?}, {} ids, {seconds:.2} s",
                text.chars().next().unwrap(),
                ids.len()
            );
            // Generous: a debug build on a busy machine; quadratic would take hours.
            assert!(seconds < 60.0, "{name}");
        }
    }
}

#[test]
fn a_megabyte_of_text_takes_about_a_second_at_most() {
    let Some(texts) = shared("text") else { return };
    for file in ["wiki.test.raw", "code.txt", "multilingual.txt"] {
        let text = read_text(texts.join(file));
        for (name, tokenizer) in every_kind() {
            let start = std::time::Instant::now();
            let ids = tokenizer.encode(&text, Special::NONE).unwrap();
            let seconds = start.elapsed().as_secs_f64();
            let rate = text.len() as f64 / seconds / 1e6;
            println!("{name}: {file}, {} ids, {rate:.1} MB/s", ids.len());
            // Release builds reach ten times this; the bound is for debug builds on a busy machine.
            assert!(rate > 0.1, "{name}: {rate} MB/s");
        }
    }
}

#[test]
fn threads_share_one_tokenizer() {
    let Some(vocab) = shared("vocab") else { return };
    let tokenizer = Tokenizer::from_gguf(gguf::vocab(vocab.join("ggml-vocab-llama-bpe.gguf"))).unwrap();
    let run = |tokenizer: &Tokenizer| {
        let mut random = Random(13);
        let texts: Vec<String> = (0..300).map(|_| random.text()).collect();
        texts.iter().map(|text| tokenizer.encode(text, Special::ADD_AND_PARSE).unwrap()).collect::<Vec<_>>()
    };
    let expected = run(&tokenizer);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&tokenizer.clone()))).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), expected));
    });
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
    assert_eq!(ChatTemplate::of_tokenizer(&tokenizer, true).unwrap().source(), "T");
    assert_eq!(ChatTemplate::of_tokenizer(&tokenizer, false).unwrap().source(), "D");

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
fn tokens_that_only_the_configuration_names_reach_the_library() {
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
fn bos_is_never_doubled() {
    let Some(vocab) = shared("vocab") else { return };
    let tokenizer = Tokenizer::from_gguf(gguf::vocab(vocab.join("ggml-vocab-llama-bpe.gguf"))).unwrap();
    let messages = [json!({ "role": "user", "content": "Hi" })];
    let conversation = Conversation::new(&messages, &tokenizer);
    for source in
        ["{{ bos_token }}{{ messages[0].content }}<|eot_id|>", "{{ messages[0].content }}<|eot_id|>"]
    {
        let ids = ChatTemplate::new(source).unwrap().encode(&conversation, &tokenizer).unwrap();
        assert_eq!(ids, [128_000, 13_347, 128_009], "{source}");
    }
}

#[test]
fn models_without_a_template_get_one_that_their_vocabulary_knows() {
    let Some(files) = shared("tokenizers") else { return };
    let qwen = TiktokenEncoding::named("qwen").unwrap();
    let qwen = Tokenizer::from_tiktoken(&read(files.join("qwen.tiktoken")), &qwen, &[]).unwrap();
    assert_eq!(DefaultTemplate::of_tokenizer(&qwen), DefaultTemplate::ChatMl);
    let llama2 = Tokenizer::from_sentencepiece(&read(files.join("llama2.tokenizer.model"))).unwrap();
    assert_eq!(DefaultTemplate::of_tokenizer(&llama2), DefaultTemplate::Plain);
    let messages = [
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "Hi" }),
        json!({ "role": "assistant", "content": "Hello." }),
        json!({ "role": "user", "content": "Bye" }),
    ];
    let conversation = Conversation {
        bos_token: Some("<s>"),
        eos_token: Some("</s>"),
        ..Conversation::new(&messages, &llama2)
    };
    let expected = [
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n\
         <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]",
        "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello.</s>\n<|user|>\nBye</s>\n<|assistant|>\n",
        "Be brief.\n\nUSER: Hi\nASSISTANT: Hello.</s>\nUSER: Bye\nASSISTANT:",
        "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello.</s>\n\n### Instruction:\nBye\n\n### Response:\n",
        "Be brief.\n\nUser: Hi\nAssistant: Hello.\nUser: Bye\nAssistant:",
    ];
    for (template, expected) in DefaultTemplate::ALL.iter().zip(expected) {
        assert_eq!(DefaultTemplate::named(template.name()), Some(*template));
        let text = ChatTemplate::new(template.source()).unwrap().render(&conversation).unwrap();
        assert_eq!(text, expected, "{}", template.name());
    }
}

#[test]
fn a_model_without_a_tokenizer_says_so() {
    let none = Tokenizer::from_gguf(GgufVocab { model: "none".into(), ..GgufVocab::default() }).unwrap();
    assert!(!none.is_available());
    assert!(matches!(none.encode("Hi", Special::ADD), Err(TextError::NoTokenizer)));
    assert!(matches!(none.decode(&[1]), Err(TextError::NoTokenizer)));
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
    assert!(matches!(tokenizer.decode(&[7]), Err(TextError::UnknownId { id: 7, size: 3 })));
    let error = Tokenizer::from_gguf(GgufVocab { model: "weird".into(), ..vocab.clone() }).unwrap_err();
    assert!(matches!(error, TextError::Unsupported { .. }), "{error}");
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
    let mut random = Random(15);
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
