//! Streams of tokens, folders, hostile files, threads: what holds for every tokenizer.

use crate::common::{gguf, read, read_text, text};
use lamina_fixtures::{Numbers, extent, shared};
use lamina_tokenize::{Markers, Special, StreamDecoder, TiktokenEncoding, TokenKind, Tokenizer};

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
    let mut random = Numbers::seeded(11);
    for (name, tokenizer) in every_kind() {
        for round in 0..400 {
            // Random ids break characters apart; ids of a text keep them whole.
            let ids: Vec<u32> = if round % 2 == 0 {
                (0..random.below(30)).map(|_| random.below(tokenizer.vocab_size()) as u32).collect()
            } else {
                tokenizer.encode(&text(&mut random), Special::ADD).unwrap()
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
    let mut random = Numbers::seeded(12);
    // BERT and GPT-NeoX (NFC) normalize; in these two no text is lost.
    let lossless =
        ["llama-spm", "llama-bpe", "qwen", "llama2", "gpt2", "lamina-tiny", "phi-3 json", "phi-2 json"];
    for (name, tokenizer) in every_kind().iter().filter(|(name, _)| lossless.contains(name)) {
        for _ in 0..500 {
            // SentencePiece cannot tell U+2581 from a space.
            let text = text(&mut random).replace('\u{2581}', "");
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
        let mut random = Numbers::seeded(13);
        let texts: Vec<String> = (0..300).map(|_| text(&mut random)).collect();
        texts.iter().map(|text| tokenizer.encode(text, Special::ADD_AND_PARSE).unwrap()).collect::<Vec<_>>()
    };
    let expected = run(&tokenizer);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&tokenizer.clone()))).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), expected));
    });
}

#[test]
fn all_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
    shared::<StreamDecoder>();
}
