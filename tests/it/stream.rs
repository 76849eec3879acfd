//! Weights that are read from disk while they are used change no bit of a result, whatever stays in memory and however
//! the rest is read.

use lamina::{
    Completion, GenerateOptions, LoadOptions, Model, Offload, Prompt, StreamOptions,
    disk::{PanelCheck, ReaderKind},
};
use lamina_base::DType;
use lamina_engine::{Event, Generation, Request, Task, Token, sample::SamplingParams};
use lamina_fixtures::{Models, extent, packaged, tokens};
use lamina_plan::ExpertCounts;
use std::{io::Write, path::Path, sync::mpsc::channel};

fn load(folder: &Path, options: LoadOptions) -> Model {
    let options = LoadOptions { threads: Some(2), context: Some(256), ..options };
    Model::load(Some(folder), options).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
}

fn streamed(stream: StreamOptions) -> LoadOptions {
    LoadOptions { stream, ..LoadOptions::default() }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn all_families_give_the_same_bits_from_disk() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for (turn, folder) in models.all().into_iter().enumerate() {
        let whole = load(&folder, LoadOptions::default());
        let want = whole.logits(&tokens(40)).map(|l| bits(&l));
        assert!(whole.info().stream.is_none());
        let kept = Some(panels.path().to_owned());
        let nothing = StreamOptions { resident: Some(0), folder: kept, ..StreamOptions::default() };
        let model = load(&folder, streamed(nothing.clone()));
        let all = model.info().stream.as_ref().expect("it is streamed").streamed_bytes;
        assert_eq!(model.logits(&tokens(40)).map(|l| bits(&l)), want, "{}", folder.display());
        for (i, share) in extent::some([1, 3, 5, 7, 9].into_iter().enumerate(), turn, 5) {
            let resident = Some(all * share / 10);
            for (piece, buffers, buffered) in
                [(4 << 10, 2 + 4 * (i % 2), i % 3 == 0), (64 << 10, 6 - 4 * (i % 2), i % 3 == 1)]
            {
                let (piece, buffers) = (Some(piece), Some(buffers));
                let reader = Some(if i % 2 == 0 { ReaderKind::Ring } else { ReaderKind::Threads });
                let stream = StreamOptions { resident, piece, buffers, buffered, reader, ..nothing.clone() };
                let model = load(&folder, streamed(stream.clone()));
                let told = model.info().stream.as_ref().expect("it is streamed").clone();
                assert!(told.resident_bytes <= all * share / 10, "{told:?}");
                assert_eq!(told.resident_bytes + told.streamed_bytes, all);
                // Twice: the second pass goes on where the first has read ahead.
                for round in 0..2 {
                    let got = model.logits(&tokens(40)).map(|l| bits(&l));
                    assert_eq!(got, want, "{}, {stream:?}, round {round}", folder.display());
                }
            }
        }
    }
}

#[test]
fn experts_give_the_same_bits_however_few_are_in_memory() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let mut mixtures = 0;
    for (turn, folder) in models.all().into_iter().enumerate() {
        let whole = load(&folder, LoadOptions::default());
        let want = whole.logits(&tokens(40)).map(|l| bits(&l));
        let kept = Some(panels.path().to_owned());
        let with = |slots| StreamOptions {
            expert_slots: Some(slots),
            folder: kept.clone(),
            ..StreamOptions::default()
        };
        let first = load(&folder, streamed(with(1)));
        let Some(experts) = first.info().stream.as_ref().and_then(|s| s.experts.as_ref()) else { continue };
        mixtures += 1;
        for slots in extent::some([1, 2, 5, experts.count / 2, experts.count], turn, 2) {
            for resident in [0, u64::MAX >> 1] {
                let stream = StreamOptions { resident: Some(resident), ..with(slots) };
                let model = load(&folder, streamed(stream));
                // Once with nothing in memory, once with what the first has left, and token by token.
                for round in 0..2 {
                    let got = model.logits(&tokens(40)).map(|l| bits(&l));
                    assert_eq!(got, want, "{}, {slots} slots, round {round}", folder.display());
                }
            }
        }
        if !whole.info().notes.is_empty() || want.is_err() {
            continue;
        }
        let model = load(&folder, LoadOptions { batch_rows: Some(3), ..streamed(with(3)) });
        assert_eq!(model.logits(&tokens(40)).map(|l| bits(&l)), want, "{} in short steps", folder.display());
    }
    assert!(mixtures > 5);
    // How often experts were asked for is kept; the last model may still be closing.
    let folders = std::fs::read_dir(panels.path().join("panels")).expect("a folder").flatten();
    assert!(folders.filter(|f| f.path().join("experts.liked").exists()).count() > 4);
}

/// Tokens of an answer with the bits of how likely they and others were, and how experts were read for it.
fn answer(folder: &Path, options: &LoadOptions) -> (Vec<String>, ExpertCounts) {
    let options = LoadOptions { threads: Some(2), context: Some(256), ..options.clone() };
    let mut loaded = lamina::open(Some(folder), &options, &|_, _| true).expect("opens");
    let mut params = SamplingParams::default();
    params.set("temperature", 0.0).expect("known");
    params.set("logprobs", 4i64).expect("known");
    let generation = Generation { max_tokens: Some(60), params, ..Generation::default() };
    let (events, receiver) = channel();
    let task = Task::Generate(Box::new(generation));
    loaded.engine.add(Request::new(tokens(30), task, Box::new(events)));
    while !loaded.engine.idle() {
        loaded.engine.step();
    }
    let token = |event| match event {
        // Its sampler's seed is drawn for each request.
        Event::Token(t) => Some(format!("{:?}", Token { sampler: None, ..t })),
        Event::Failed(e) => panic!("{}: {e}", folder.display()),
        _ => None,
    };
    (receiver.try_iter().filter_map(token).collect(), loaded.engine.machine().streamed().experts)
}

#[test]
fn experts_that_are_guessed_change_no_bit_and_neither_do_kept_counts() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["mixtral", "qwen3-moe", "gpt-oss", "qwen3-next", "granite-moe", "llama4-text"] {
        let folder = models.folder(name);
        let whole = LoadOptions { batch_rows: Some(3), ..LoadOptions::default() };
        let (want, _) = answer(&folder, &whole);
        assert_eq!(want.len(), 60);
        let mut guessed = 0;
        for (slots, reader) in [(9, ReaderKind::Ring), (16, ReaderKind::Threads), (22, ReaderKind::Ring)] {
            let kept = Some(panels.path().to_owned());
            let stream = StreamOptions {
                expert_slots: Some(slots),
                folder: kept,
                reader: Some(reader),
                ..StreamOptions::default()
            };
            let (got, counts) = answer(&folder, &LoadOptions { stream, ..whole.clone() });
            assert_eq!(got, want, "{name}, {slots} slots");
            guessed += counts.guessed;
            // The next load begins with counts that are damaged, and the one behind it with whole ones.
            for kept in files(panels.path(), "liked").iter().take(usize::from(slots == 9)) {
                std::fs::write(kept, "LMNLIKE1 and nothing else").expect("writes");
            }
        }
        assert!(guessed > 0, "{name}");
    }
}

/// Files of this ending in the folders of panels.
fn files(root: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir(root.join("panels")).expect("a folder").flatten();
    let files = folders.flat_map(|f| std::fs::read_dir(f.path()).expect("a folder").flatten());
    files.map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == ending)).collect()
}

fn asked(seed: i64) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(24), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", seed).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

fn texts(model: &Model) -> Vec<Completion> {
    let streams: Vec<_> = (0..4)
        .map(|i| {
            let prompt = Prompt::Text("Once upon a time there was a cat. ".repeat(1 + i * 3));
            model.stream(&prompt, &asked(i as i64)).expect("starts")
        })
        .collect();
    let all = |stream: lamina::TokenStream| {
        let mut got = Completion::empty();
        stream.for_each(|piece| got.push(piece.expect("runs")));
        got
    };
    streams.into_iter().map(all).collect()
}

#[test]
fn sampled_texts_are_the_same_in_any_company_and_type() {
    let panels = tempfile::tempdir().expect("a folder");
    for dtype in [None, Some(DType::F16), Some(DType::Q4_K), Some(DType::Q6_K)] {
        let options = LoadOptions { dtype, batch_rows: Some(16), ..LoadOptions::default() };
        let want = texts(&load(&packaged(), options.clone()));
        for piece in [16 << 10, 1 << 20] {
            let folder = Some(panels.path().to_owned());
            let (resident, piece) = (Some(100 << 10), Some(piece));
            let stream = StreamOptions { resident, piece, folder, ..StreamOptions::default() };
            let model = load(&packaged(), LoadOptions { stream, ..options.clone() });
            let got = texts(&model);
            for (got, want) in got.iter().zip(&want) {
                assert_eq!((&got.text, &got.tokens), (&want.text, &want.tokens), "{dtype:?}");
                assert_eq!(got.logprobs, want.logprobs, "{dtype:?}");
            }
        }
    }
}

#[test]
fn damaged_panels_are_found_and_written_anew() {
    let panels = tempfile::tempdir().expect("a folder");
    let stream = StreamOptions {
        resident: Some(0),
        folder: Some(panels.path().to_owned()),
        ..StreamOptions::default()
    };
    let open = || load(&packaged(), streamed(stream.clone()));
    let want = bits(&open().logits(&[1, 2, 3]).expect("runs"));
    let file = || files(panels.path(), "panels").pop();
    let path = file().expect("a file of panels");
    let whole = std::fs::read(&path).expect("reads");
    // A byte of a panel: the index is whole, so it is found when the panel is read.
    let mut bytes = whole.clone();
    bytes[8192] ^= 1;
    std::fs::write(&path, &bytes).expect("writes");
    let message = Model::load(Some(&packaged()), streamed(stream.clone()))
        .and_then(|model| model.logits(&[1, 2, 3]).map(drop))
        .expect_err("damaged")
        .to_string();
    assert!(message.contains("damaged") && message.contains("panels"), "{message}");
    assert_eq!(bits(&open().logits(&[1, 2, 3]).expect("written anew")), want);
    // The end is missing, or the head is wrong: such a file is never used.
    for broken in [&whole[..whole.len() / 2], &[&[0], &whole[1..]].concat()[..]] {
        std::fs::write(file().expect("a file"), broken).expect("writes");
        assert_eq!(bits(&open().logits(&[1, 2, 3]).expect("written anew")), want);
    }
}

/// Bytes that change under a model that runs: an error that names the file, and no other answer.
#[test]
fn panels_that_change_after_they_were_read_are_an_error() {
    for check in [PanelCheck::Always, PanelCheck::First] {
        let panels = tempfile::tempdir().expect("a folder");
        let folder = Some(panels.path().to_owned());
        let stream = StreamOptions { resident: Some(0), folder, check, ..StreamOptions::default() };
        let model = load(&packaged(), streamed(stream));
        let want = bits(&model.logits(&[1, 2, 3]).expect("runs"));
        assert_eq!(bits(&model.logits(&[1, 2, 3]).expect("runs again")), want);
        let path = files(panels.path(), "panels").pop().expect("a file of panels");
        let mut bytes = std::fs::read(&path).expect("reads");
        let index = u64::from_le_bytes(bytes[12..20].try_into().expect("8 bytes")) as usize;
        (4096..index).step_by(8192).for_each(|at| bytes[at] ^= 1);
        // In place: what is read ahead meanwhile finds the file in its length.
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("opens");
        file.write_all(&bytes).expect("writes");
        match (model.logits(&[1, 2, 3]), check) {
            (Err(e), PanelCheck::Always) => {
                let message = e.to_string();
                assert!(message.contains("damaged") && message.contains(path.to_str().unwrap()), "{message}");
            }
            (Ok(_), PanelCheck::First) => {}
            (other, _) => panic!("{check:?}: {other:?}"),
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_where_nothing_may_be_streamed() {
    let options = LoadOptions {
        memory: Some(lamina::MemoryLimit::Bytes(1 << 10)),
        offload: Offload::Never,
        ..LoadOptions::default()
    };
    let error = Model::load(Some(&packaged()), options.clone()).err().expect("refused").to_string();
    assert!(error.contains("the weights take"), "{error}");
    let error = Model::load(Some(&packaged()), LoadOptions { offload: Offload::Auto, ..options });
    let error = error.err().expect("refused").to_string();
    assert!(error.contains("even with weights that are read from disk"), "{error}");
}
