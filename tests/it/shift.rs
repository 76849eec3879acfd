//! Answers that go on when their context is full: what follows a shift is what a request gives that begins with the tokens
//! that were kept.

use crate::common::answers::bits;
use crate::common::rests;
use lamina::{AnswerState, Completion, GenerateOptions, KvType, LoadOptions, Model, Prompt};
use lamina_fixtures::{Models, names, packaged, tokens};
use std::path::Path;

/// Longest sequence.
const CONTEXT: usize = 64;
/// Tokens that stay.
const SINKS: usize = 5;

fn load(path: &Path) -> Model {
    let options = LoadOptions {
        threads: Some(1),
        context: Some(CONTEXT),
        kv_dtype: KvType::Q8_0.into(),
        ..LoadOptions::default()
    };
    Model::load(Some(path), options).expect("loads")
}

fn answer(model: &Model, tokens: Vec<u32>, count: usize, shift: Option<usize>) -> Completion {
    let mut options = GenerateOptions {
        max_tokens: Some(count),
        ignore_eos: true,
        context_shift: shift,
        ..GenerateOptions::default()
    };
    options.sampling.set("temperature", 0.0).expect("known");
    options.sampling.set("logprobs", 2i64).expect("known");
    model.generate(&Prompt::Tokens(tokens), &options).expect("runs").remove(0)
}

/// The same by requests of their own, each of which begins with what is kept.
fn by_hand(model: &Model, mut tokens: Vec<u32>, count: usize) -> Vec<(u32, u32)> {
    let mut all = vec![];
    while all.len() < count {
        let part =
            bits(&answer(model, tokens.clone(), (CONTEXT + 1 - tokens.len()).min(count - all.len()), None));
        tokens.extend(part.iter().map(|(t, _)| t));
        all.extend(part);
        let kept = (CONTEXT - SINKS).div_ceil(2);
        tokens.drain(SINKS..(tokens.len() - kept).max(SINKS));
    }
    all
}

#[test]
fn every_family_goes_on_with_the_bits_of_what_was_kept() {
    let models = Models::new();
    for name in names() {
        let model = load(&models.folder(&name));
        let got = answer(&model, tokens(40), 150, Some(SINKS));
        assert_eq!(got.tokens.len(), 150, "{name}");
        assert_eq!((got.timings.context_shifts, got.timings.prompt_tokens), (5, 40), "{name}");
        assert_eq!(bits(&got), by_hand(&model, tokens(40), 150), "{name}");
        let short = answer(&model, tokens(40), 150, None);
        assert_eq!(
            short.tokens.len(),
            CONTEXT + 1 - 40,
            "{name}: without a shift the context ends the answer"
        );
    }
}

#[test]
fn memory_stays_as_it_is_and_others_are_not_disturbed() {
    let model = load(&packaged());
    let ask = |i: u32| (0..30).map(|t| 20 + (t * 7 + i) % 300).collect::<Vec<_>>();
    let want: Vec<_> = (0..4).map(|i| by_hand(&model, ask(i), 300)).collect();
    let answers: Vec<_> = std::thread::scope(|threads| {
        let one = |i| {
            let (model, ask) = (&model, &ask);
            threads.spawn(move || bits(&answer(model, ask(i), 300, Some(SINKS))))
        };
        let running: Vec<_> = (0..4).map(one).collect();
        running.into_iter().map(|thread| thread.join().expect("runs")).collect()
    });
    assert!(answers == want);
    assert!(rests(&model));
    let whole = answer(&model, ask(0), 5000, Some(4));
    assert_eq!(whole.tokens.len(), 5000);
}

#[test]
fn an_answer_that_was_cut_shifts_where_it_would_have() {
    let model = load(&packaged());
    let ask = |count, compress: Option<&str>, resume| {
        let mut options = GenerateOptions {
            max_tokens: Some(count),
            ignore_eos: true,
            context_shift: Some(SINKS),
            compress: compress.map(|text| text.parse().expect("is a method")),
            resume,
            ..GenerateOptions::default()
        };
        options.sampling.set("seed", 3i64).expect("known");
        options.sampling.set("logprobs", 2i64).expect("known");
        // Its own first shift, one behind the prompt, and several more: contexts of 64 tokens, 30 of which stay.
        let prompt = Prompt::Tokens((0..90).map(|t| 20 + t * 7 % 300).collect());
        model.generate(&prompt, &options).expect("runs").remove(0)
    };
    for compress in [None, Some("snapkv:24,window=8,pool=3")] {
        let whole = bits(&ask(130, compress, None));
        for count in [1, 28, 29, 30, 31, 58, 59, 60, 61, 75, 100, 129] {
            let cut = ask(count, compress, None);
            let resume = Some(AnswerState { tokens: cut.tokens.clone(), sampler: cut.sampler });
            let more = ask(130 - count, compress, resume);
            assert!([bits(&cut), bits(&more)].concat() == whole, "cut behind {count}, {compress:?}");
        }
    }
}

#[test]
fn what_leaves_no_room_is_refused() {
    let model = load(&packaged());
    let options = GenerateOptions { context_shift: Some(CONTEXT / 2 + 1), ..GenerateOptions::default() };
    let error =
        model.generate(&Prompt::Tokens(vec![5]), &options).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.contains("context_shift is 33, but must be at most half of the context's tokens"),
        "{error}"
    );
}
