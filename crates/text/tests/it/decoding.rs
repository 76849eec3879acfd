//! Streams of tokens, folders, hostile files, threads: what holds for every tokenizer.

use crate::common::{Random, gguf, read, read_text};
use lamina_fixtures::{extent, shared};
use lamina_text::{
    ChatTemplate, Conversation, DefaultTemplate, Markers, Special, StreamDecoder, TiktokenEncoding,
    TokenKind, Tokenizer,
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
    for (i, (name, tokenizer)) in every_kind().into_iter().enumerate() {
        for text in extent::some(&texts, i, 4) {
            // A tenth shows for the others whether they are quadratic.
            let full = ["llama-spm", "llama-bpe", "bert"].contains(&name);
            let part = if full { text.len() } else { text.len() / 30 * 3 };
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
    for (i, file) in ["wiki.test.raw", "code.txt", "multilingual.txt"].into_iter().enumerate() {
        let text = read_text(texts.join(file));
        for (name, tokenizer) in extent::some(every_kind(), i, 3) {
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
fn all_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
    shared::<StreamDecoder>();
    shared::<ChatTemplate>();
}
