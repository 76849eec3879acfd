//! Models of which each of several ranks computes some rows of every matrix: the bits of one machine, for any number of ranks.

use crate::{
    common::{
        answers::{self, bits, top_bits},
        load, rank_at,
    },
    lora, pictures,
    stages::{all_bits, options, rank, refused, request},
};
use lamina::{
    ApproximateExperts, Completion, DraftSource, KvDtype, KvSwap, LoadOptions, Model, PlacementPolicy,
    Prompt, RankList, Special, StreamOptions, SwapChoice, TokenStream,
};
use lamina_fixtures::{Models, extent, names, packaged, tokens};
use std::path::Path;

/// So many ranks, of which one is the leader.
fn in_shards(path: &Path, ranks: usize, options: LoadOptions) -> LoadOptions {
    LoadOptions { tp: RankList((1..ranks).map(|_| rank(path)).collect()), ..options }
}

#[test]
fn every_family_in_shards_has_the_bits_of_one_machine() {
    let models = Models::new();
    for (i, name) in names().into_iter().enumerate() {
        let folder = models.folder(&name);
        let want = all_bits(&load(&folder, options()));
        for ranks in extent::some([2, 3, 4, 8], i, 4) {
            let model = load(&folder, in_shards(&folder, ranks, options()));
            let notes = &model.info().notes;
            let part = format!("1 of {ranks} parts of each matrix is computed by 127.0.0.1");
            assert!(notes.iter().any(|note| note.contains(&part)), "{name}: {notes:?}");
            assert!(all_bits(&model) == want, "{name} with {ranks} ranks");
        }
    }
}

/// Steps of so many rows that columns go both ways at once, and types of weights and of the cache that are quantized.
#[test]
fn large_steps_and_other_types_have_the_bits_of_one_machine() {
    let models = Models::new();
    let wide = || LoadOptions { batch_rows: Some(400), ..options() };
    let with = |dtype: Option<&str>, kv: &str| LoadOptions {
        dtype: dtype.map(|name| name.parse().expect("a type")),
        kv_dtype: kv.parse::<KvDtype>().expect("a type"),
        ..wide()
    };
    for name in ["llama", "gemma2", "mixtral"] {
        let folder = models.folder(name);
        for options in [wide(), with(Some("q8_0"), "q8_0"), with(Some("q4_0"), "k=q8_0,v=q4_0")] {
            let told = |model: &Model| {
                let logits: Vec<u32> =
                    model.logits(&tokens(240)).expect("runs").into_iter().map(f32::to_bits).collect();
                let prompt = |i: u32| Prompt::Tokens(tokens(60 + 55 * i).split_off(i as usize));
                let asked: Vec<_> = (0..4).map(|i| (prompt(i), request(0))).collect();
                (logits, answers::together(model, &asked))
            };
            let want = told(&load(&folder, options.clone()));
            assert!(told(&load(&folder, in_shards(&folder, 3, options))) == want, "{name}");
        }
    }
}

/// Requests that lose their memory go on from pages that were swapped: every rank gets them back.
#[test]
fn preempted_requests_go_on_in_shards() {
    let models = Models::new();
    let swapped = KvSwap { choice: SwapChoice::Always, .."ram:64MiB".parse().expect("a size") };
    for name in ["llama", "mixtral"] {
        let path = models.folder(name);
        let whole = load(&path, options());
        let mut o = request(0);
        o.n = 2;
        o.max_tokens = Some(60);
        let prompts: Vec<Vec<u32>> = (0..4).map(|i| tokens(60 + i).split_off(i as usize)).collect();
        let want: Vec<_> = prompts.iter().map(|prompt| bits(&answers::answer(&whole, prompt, &o))).collect();
        let kv_memory = Some(whole.info().kv_bytes_per_sequence * 5 / 4);
        for kv_swap in [KvSwap::default(), swapped] {
            let small = load(&path, in_shards(&path, 2, LoadOptions { kv_memory, kv_swap, ..options() }));
            let start =
                |prompt: &Vec<u32>| small.stream(&Prompt::Tokens(prompt.clone()), &o).expect("starts");
            let streams: Vec<TokenStream> = prompts.iter().map(start).collect();
            let mut preempted = 0;
            for (i, stream) in streams.into_iter().enumerate() {
                let mut answer = Completion::empty();
                stream
                    .map(|piece| piece.expect("runs"))
                    .filter(|p| p.index == 0)
                    .for_each(|p| answer.push(p));
                preempted += answer.timings.preemptions;
                assert_eq!(bits(&answer), want[i], "{name}: {i}");
            }
            assert!(preempted > 0, "{name}: the cache was not too small");
        }
    }
}

/// A session goes on with another number of ranks.
#[test]
fn sessions_go_on_in_other_shards() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["llama", "gemma2", "mamba2"] {
        let path = models.folder(name);
        let answer = |model: &Model, tokens: &[u32]| {
            top_bits(&model.generate(&Prompt::Tokens(tokens.to_vec()), &request(0)).expect("runs")[0])
        };
        let (text, longer) = (tokens(200), tokens(220));
        let want = answer(&load(&path, options()), &longer);
        for (from, to) in [(2, 1), (1, 3), (4, 2)] {
            let file = folder.path().join(name);
            let first = load(&path, in_shards(&path, from, options()));
            answer(&first, &text);
            first.save_session(&file, &text, &serde_json::Value::Null).expect("saved");
            first.close();
            let second = load(&path, in_shards(&path, to, options()));
            assert_eq!(second.load_session(&file).expect("read").cached_tokens, 192, "{name}");
            assert_eq!(answer(&second, &longer), want, "{name}: from {from} to {to} ranks");
        }
    }
}

/// Guesses, hidden rows behind each layer, adapters: what reads or changes rows beside the operators.
#[test]
fn what_stands_beside_operators_acts_in_shards() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let story = packaged();
    let want = all_bits(&load(&story, options()));
    let draft = Some(DraftSource::from(story.to_str().expect("a path")));
    assert!(all_bits(&load(&story, in_shards(&story, 2, LoadOptions { draft, ..options() }))) == want);
    for name in ["llama", "gemma2"] {
        let path = models.folder(name);
        let (whole, sharded) = (load(&path, options()), load(&path, in_shards(&path, 2, options())));
        for layer in 0..=whole.info().layers as isize {
            let rows = |model: &Model| {
                let rows = model.hidden(&tokens(70), layer).expect("runs");
                rows.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert!(rows(&sharded) == rows(&whole), "{name} behind {layer} layers");
        }
        let adapter = lora::peft(folder.path(), name, &lora::changes(&path, 3, false), false);
        let adapted = LoadOptions { loras: vec![("one".into(), adapter)], ..options() };
        let bits = |model: Model| {
            let plain = all_bits(&model);
            (plain, all_bits(&model.with_lora(&[("one", 0.7)]).expect("known")))
        };
        let want = bits(load(&path, adapted.clone()));
        assert!(want.0 != want.1, "{name}: the adapter acts");
        assert!(bits(load(&path, in_shards(&path, 2, adapted))) == want, "{name}");
    }
}

/// Experts that are left out, or added a layer later, are so on all ranks.
#[test]
fn experts_are_approximated_in_shards() {
    let models = Models::new();
    let path = models.folder("mixtral");
    let exact = all_bits(&load(&path, options()));
    let fewer = ApproximateExperts { fewer: Some("1,0.9".parse().expect("shares")), deferred: None };
    let deferred = ApproximateExperts { fewer: None, deferred: std::num::NonZeroUsize::new(1) };
    for experts in [fewer, deferred] {
        let asked = LoadOptions { experts, ..options() };
        let want = all_bits(&load(&path, asked.clone()));
        assert!(want != exact, "the approximation acts");
        assert!(all_bits(&load(&path, in_shards(&path, 3, asked))) == want);
    }
}

/// What is added behind the first layers for pictures is added on all ranks.
#[test]
fn pictures_are_seen_in_shards() {
    for name in ["gemma3", "qwen2-vl", "qwen3-vl"] {
        let Some(path) = pictures::folder(name) else { return };
        let case = pictures::cases(name).into_iter().find(|case| case.name == "two").expect("a case");
        let bits = |model: &Model| {
            let text = model.expand_images(&case.prompt, &case.pictures).expect("expands");
            let tokens = model.tokenize(&text, Special::ADD_AND_PARSE).expect("tokens");
            let logits = model.logits_seeing(&tokens, &case.pictures).expect("runs");
            logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let want = bits(&pictures::load(&path, |o| o));
        assert!(bits(&pictures::load(&path, |o| in_shards(&path, 2, o))) == want, "{name}");
    }
}

/// A rank that has no room reads its rows from disk.
#[test]
fn a_rank_reads_its_rows_from_disk() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let path = models.folder("llama");
    let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
    let rules = vec!["ffn=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let own = LoadOptions { threads: Some(1), placement, stream, ..LoadOptions::default() };
    let tp = RankList(vec![rank_at(&path, own), rank(&path)]);
    let want = all_bits(&load(&path, options()));
    assert!(all_bits(&load(&path, LoadOptions { tp, ..options() })) == want);
    assert!(std::fs::read_dir(panels.path()).expect("a folder").next().is_some(), "rows were packed");
}

#[test]
fn what_cannot_be_in_shards_is_refused_in_words() {
    let models = Models::new();
    let mixtral = models.folder("mixtral");
    let rules = vec!["experts=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let error = refused(&mixtral, in_shards(&mixtral, 2, LoadOptions { placement, ..options() }));
    assert!(error.contains("all experts that a machine computes have to fit"), "{error}");
    let llama = models.folder("llama");
    let stages = rank(&llama).parse().expect("an address");
    let error = refused(&llama, in_shards(&llama, 2, LoadOptions { stages, ..options() }));
    assert!(error.contains("stages and tp are both given"), "{error}");
    let other = in_shards(&models.folder("qwen2"), 2, options());
    assert!(refused(&llama, other).contains("has another model, or other adapters"));
}
