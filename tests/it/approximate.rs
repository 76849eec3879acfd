//! Approximations of experts: they are only what was asked for, and depend on the request alone.

use crate::common::answers::bits;
use crate::common::load;
use lamina::{
    ApproximateExperts, Completion, GenerateOptions, LoadOptions, Model, Prompt, StreamOptions, TokenStream,
    disk,
};
use lamina_fixtures::{Models, extent, packaged, tokens};
use std::num::NonZeroUsize;

fn approximate(fewer: Option<&str>, deferred: usize) -> ApproximateExperts {
    let fewer = fewer.map(|text| text.parse().expect("two numbers"));
    ApproximateExperts { fewer, deferred: NonZeroUsize::new(deferred) }
}

fn options(experts: ApproximateExperts) -> LoadOptions {
    LoadOptions { experts, threads: Some(2), context: Some(256), ..LoadOptions::default() }
}

fn asked(seed: i64) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(20), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", seed).expect("known");
    o.sampling.set("logprobs", 3i64).expect("known");
    o
}

fn prompt(i: u32) -> Prompt {
    Prompt::Tokens(tokens(30 + 9 * i))
}

fn alone(model: &Model, i: u32) -> Vec<(u32, u32)> {
    bits(&model.generate(&prompt(i), &asked(i.into())).expect("runs")[0])
}

fn together(model: &Model) -> Vec<Vec<(u32, u32)>> {
    let streams: Vec<TokenStream> =
        (0..4).map(|i| model.stream(&prompt(i), &asked(i.into())).expect("starts")).collect();
    let all = |stream: TokenStream| {
        let mut got = Completion::empty();
        stream.for_each(|piece| got.push(piece.expect("runs")));
        bits(&got)
    };
    streams.into_iter().map(all).collect()
}

#[test]
fn a_request_alone_decides_what_is_approximated() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let families = ["mixtral", "qwen3-moe", "gpt-oss", "deepseek-v3", "qwen3-next"];
    for (turn, name) in families.into_iter().enumerate() {
        let folder = models.folder(name);
        let exact = load(&folder, options(ApproximateExperts::default())).logits(&tokens(40)).expect("runs");
        for experts in [approximate(Some("1,0.8"), 0), approximate(None, 1), approximate(Some("1,0.6"), 1)] {
            let plain = load(&folder, LoadOptions { reuse_prefixes: false, ..options(experts) });
            assert_ne!(plain.logits(&tokens(40)).expect("runs"), exact, "{name}, {experts:?}");
            let want: Vec<_> = (0..4).map(|i| alone(&plain, i)).collect();
            assert_eq!(together(&plain), want, "{name}, {experts:?} among four");
            let slots = |slots, reader| StreamOptions {
                expert_slots: Some(slots),
                folder: Some(panels.path().to_owned()),
                reader: Some(reader),
                ..StreamOptions::default()
            };
            let (ring, threads) = (disk::ReaderKind::Ring, disk::ReaderKind::Threads);
            let others = [
                ("in pieces of 3", LoadOptions { batch_rows: Some(3), ..options(experts) }),
                ("on 3 threads", LoadOptions { threads: Some(3), ..options(experts) }),
                ("with one expert in memory", LoadOptions { stream: slots(1, threads), ..options(experts) }),
                ("with 9", LoadOptions { stream: slots(9, ring), batch_rows: Some(3), ..options(experts) }),
                (
                    "with 20",
                    LoadOptions { stream: slots(20, threads), batch_rows: Some(2), ..options(experts) },
                ),
            ];
            for (how, options) in extent::some(others, turn, 2) {
                let model = load(&folder, options);
                // Twice: the second time its beginning is found in the cache.
                for round in 0..2 {
                    assert_eq!(alone(&model, 2), want[2], "{name}, {experts:?} {how}, round {round}");
                }
            }
        }
    }
}

#[test]
fn computed_beginnings_are_not_shared_with_other_approximations() {
    let (models, cache) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let folder = models.folder("qwen3-moe");
    let from_disk = |experts| {
        let model =
            load(&folder, LoadOptions { cache_dir: Some(cache.path().to_owned()), ..options(experts) });
        let found =
            model.generate(&Prompt::Tokens(tokens(200)), &asked(1)).expect("runs")[0].usage.disk_tokens;
        model.close();
        found
    };
    let ways = [
        ApproximateExperts::default(),
        approximate(None, 1),
        approximate(None, 2),
        approximate(Some("1,0.5"), 0),
        approximate(Some("1,0.6"), 0),
    ];
    for experts in ways {
        assert_eq!(from_disk(experts), 0, "{experts:?}");
    }
    for experts in ways {
        assert!(from_disk(experts) > 100, "{experts:?}");
    }
}

#[test]
fn they_are_told_and_refused_with_words() {
    let models = Models::new();
    let mixture = models.folder("qwen3-moe");
    let info = load(&mixture, options(approximate(Some("2,0.25"), 1))).info().clone();
    assert_eq!(info.approximations, ["fewer_experts 2,0.25", "defer_experts 1"]);
    assert!(info.notes.iter().any(|n| n.contains("approximate: fewer_experts 2,0.25, defer_experts 1")));
    assert!(load(&mixture, options(ApproximateExperts::default())).info().approximations.is_empty());
    let refused = [
        (packaged(), approximate(None, 1), "no experts"),
        (packaged(), approximate(Some("1,0.5"), 0), "no experts"),
        (mixture.clone(), approximate(None, 4), "a token takes 4 experts"),
        (mixture, approximate(Some("4,0.5"), 0), "a token takes 4 experts"),
        (models.folder("llama4-text"), approximate(None, 1), "a token takes one expert"),
    ];
    for (folder, experts, words) in refused {
        let refusal = Model::load(Some(&folder), options(experts)).err().map(|e| e.to_string());
        assert!(refusal.as_ref().is_some_and(|e| e.contains(words)), "{}: {refusal:?}", folder.display());
    }
}
