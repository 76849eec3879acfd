//! Models whose layers several ranks compute, each in a thread of its own behind a connection: the bits of one machine.

use crate::{
    common::{
        answers::{self, Bits, bits, top_bits},
        load, rank_at,
    },
    lora, pictures,
};
use lamina::{
    ApproximateExperts, Completion, DraftSource, GenerateOptions, KvSwap, LoadOptions, Model,
    PlacementPolicy, Prompt, RankService, Special, StageList, StreamOptions, SwapChoice, TokenStream,
    TraceDetail,
};
use lamina_fixtures::{Models, extent, names, packaged, tokens};
use std::path::Path;

pub fn options() -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(256), batch_rows: Some(32), ..LoadOptions::default() }
}

pub fn rank(path: &Path) -> String {
    rank_at(path, LoadOptions { threads: Some(1), ..LoadOptions::default() })
}

/// Ranks with these numbers of layers; 0 is by memory.
fn stages(path: &Path, layers: &[usize]) -> StageList {
    let one = |layers: &usize| match layers {
        0 => rank(path),
        layers => format!("{}={layers}", rank(path)),
    };
    layers.iter().map(one).collect::<Vec<_>>().join(",").parse().expect("a list")
}

fn in_stages(path: &Path, layers: &[usize], options: LoadOptions) -> LoadOptions {
    LoadOptions { stages: stages(path, layers), ..options }
}

pub fn request(i: usize) -> GenerateOptions {
    let n = 1 + i % 2;
    let mut o = GenerateOptions { max_tokens: Some(12), ignore_eos: true, n, ..GenerateOptions::default() };
    o.sampling.set("seed", i as i64).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

/// All logits of a prompt, and the answers to several at once.
pub fn all_bits(model: &Model) -> (Vec<u32>, Vec<Vec<Vec<Bits>>>) {
    let logits = model.logits(&tokens(70)).expect("runs").into_iter().map(f32::to_bits).collect();
    let prompt = |i: usize| Prompt::Tokens(tokens(30 + 11 * i as u32).split_off(i));
    let asked: Vec<_> = (0..4).map(|i| (prompt(i), request(i))).collect();
    (logits, answers::together(model, &asked))
}

#[test]
fn every_family_in_stages_has_the_bits_of_one_machine() {
    let models = Models::new();
    for (i, name) in names().into_iter().enumerate() {
        let folder = models.folder(&name);
        let want = all_bits(&load(&folder, options()));
        for layers in extent::some([&[0][..], &[0, 0]], i, 2) {
            let model = load(&folder, in_stages(&folder, layers, options()));
            assert!(model.info().notes.iter().any(|note| note.contains("computed by 127.0.0.1")), "{name}");
            assert!(all_bits(&model) == want, "{name} with {} ranks", layers.len());
        }
    }
}

/// Steps of many rows are computed in parts that follow one another through the stages, some of one sequence and some of
/// several, beside answers that go on.
#[test]
fn parts_of_a_step_follow_one_another_with_the_same_bits() {
    let models = Models::new();
    let wide = || LoadOptions { batch_rows: Some(400), ..options() };
    for (i, name) in names().into_iter().enumerate() {
        if !extent::takes(i, 3) && !["llama", "qwen3-next", "mamba2"].contains(&name.as_str()) {
            continue;
        }
        let folder = models.folder(&name);
        let bits = |model: &Model| {
            let logits: Vec<u32> =
                model.logits(&tokens(240)).expect("runs").into_iter().map(f32::to_bits).collect();
            let prompt = |i: u32| Prompt::Tokens(tokens(60 + 55 * i).split_off(i as usize));
            let asked: Vec<_> = (0..4).map(|i| (prompt(i), request(0))).collect();
            (logits, answers::together(model, &asked))
        };
        let want = bits(&load(&folder, wide()));
        assert!(bits(&load(&folder, in_stages(&folder, &[0], wide()))) == want, "{name}");
    }
}

fn answer(model: &Model, tokens: &[u32]) -> Vec<Bits> {
    let mut o = request(0);
    o.max_tokens = Some(20);
    top_bits(&model.generate(&Prompt::Tokens(tokens.to_vec()), &o).expect("runs")[0])
}

/// Requests that lose their memory are computed again by all machines, or go on from the pages of all that were swapped.
#[test]
fn preempted_requests_go_on_with_the_same_bits() {
    let models = Models::new();
    let swapped = KvSwap { choice: SwapChoice::Always, .."ram:64MiB".parse().expect("a size") };
    for (i, name) in ["llama", "mixtral", "deepseek-v2"].into_iter().enumerate() {
        let path = models.folder(name);
        let whole = load(&path, options());
        let mut o = request(i);
        o.max_tokens = Some(60);
        let prompts: Vec<Vec<u32>> = (0..4).map(|i| tokens(60 + i).split_off(i as usize)).collect();
        let want: Vec<_> = prompts.iter().map(|prompt| bits(&answers::answer(&whole, prompt, &o))).collect();
        // What is meant is memory of each machine: the leader has a part of the layers.
        let kv_memory = Some(whole.info().kv_bytes_per_sequence / 4 * 3);
        for kv_swap in [KvSwap::default(), swapped] {
            let small = LoadOptions { kv_memory, kv_swap, ..options() };
            let small = load(&path, in_stages(&path, &[0], small));
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

/// Pages and states of all machines are saved as those of one: a session goes on where there are other stages, or none.
#[test]
fn sessions_go_on_in_other_stages() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["llama", "gemma2", "deepseek-v2", "qwen3-next", "mamba2"] {
        let path = models.folder(name);
        let (text, longer) = (tokens(200), tokens(220));
        let want = answer(&load(&path, options()), &longer);
        for (from, to) in [(&[0][..], &[][..]), (&[], &[0]), (&[0, 0], &[0])] {
            let file = folder.path().join(name);
            let first = load(&path, in_stages(&path, from, options()));
            answer(&first, &text);
            first.save_session(&file, &text, &serde_json::Value::Null).expect("saved");
            first.close();
            let second = load(&path, in_stages(&path, to, options()));
            assert_eq!(second.load_session(&file).expect("read").cached_tokens, 192, "{name}");
            assert_eq!(answer(&second, &longer), want, "{name}: from {from:?} to {to:?}");
        }
    }
}

/// Heads take rows from behind layers that a rank has computed, and a draft model is the leader's.
#[test]
fn guesses_change_nothing_in_stages() {
    let models = Models::new();
    for (path, draft) in [
        (packaged(), DraftSource::from(packaged().to_str().expect("a path"))),
        (models.head("glm4-moe"), DraftSource::Mtp),
        (models.head("deepseek-v3"), DraftSource::Mtp),
    ] {
        let want = all_bits(&load(&path, options()));
        let drafted = LoadOptions { draft: Some(draft), ..options() };
        let model = load(&path, in_stages(&path, &[0], drafted));
        assert!(model.info().draft.is_some(), "{}", path.display());
        assert!(all_bits(&model) == want, "{}", path.display());
    }
}

/// Rows behind a layer come from the machine that computes it.
#[test]
fn hidden_rows_come_from_every_stage() {
    let models = Models::new();
    for name in ["llama", "gemma2", "qwen3-next"] {
        let path = models.folder(name);
        let (whole, staged) = (load(&path, options()), load(&path, in_stages(&path, &[0, 0], options())));
        for layer in 0..=whole.info().layers as isize {
            let rows = |model: &Model| {
                let rows = model.hidden(&tokens(70), layer).expect("runs");
                rows.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert!(rows(&staged) == rows(&whole), "{name} behind {layer} layers");
        }
    }
}

/// Rows of pictures enter with the embedding, and what is added behind the first layers is added where these are.
#[test]
fn pictures_are_seen_in_stages() {
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
        // The leader has as little as can be: what is added is added by ranks.
        let stages = stages(&path, &[1, 1]);
        assert!(bits(&pictures::load(&path, |o| LoadOptions { stages, ..o })) == want, "{name}");
    }
}

/// Each machine has its part of an adapter, which is a request's own affair.
#[test]
fn adapters_act_in_every_stage() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["llama", "gemma2"] {
        let path = models.folder(name);
        let adapter = lora::peft(folder.path(), name, &lora::changes(&path, 3, false), false);
        let adapted = LoadOptions { loras: vec![("one".into(), adapter)], ..options() };
        let bits = |model: Model| {
            let plain = all_bits(&model);
            (plain, all_bits(&model.with_lora(&[("one", 0.7)]).expect("known")))
        };
        let want = bits(load(&path, adapted.clone()));
        assert!(want.0 != want.1, "{name}: the adapter acts");
        assert!(bits(load(&path, in_stages(&path, &[0], adapted))) == want, "{name}");
    }
}

#[test]
fn a_recording_in_stages_tells_steps_and_changes_nothing() {
    let models = Models::new();
    let path = models.folder("llama");
    let model = load(&path, in_stages(&path, &[0], options()));
    let want = all_bits(&model);
    for (name, detail) in TraceDetail::ALL {
        assert!(model.record(Some(detail)).is_none());
        assert!(all_bits(&model) == want, "{name}");
        let log = model.record(None).expect("was recorded");
        assert!(!log.steps.is_empty() && log.ops.is_empty(), "{name}: no operator is told apart from others");
    }
}

/// What is larger than a rank's memory is read from its disk, and what is approximate is so on all machines.
#[test]
fn ranks_stream_and_approximate_as_one_machine_does() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let path = models.folder("mixtral");
    let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
    let rules = vec!["experts=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let own = LoadOptions { threads: Some(1), placement, stream, ..LoadOptions::default() };
    let rank = RankService::listen("127.0.0.1:0").expect("a free port");
    let (stages, served) = (rank.address().parse().expect("an address"), path.clone());
    std::thread::spawn(move || rank.serve(Some(&served), &own, (&|_| (), &|_, _| true)));
    let experts = ApproximateExperts { fewer: Some("1,0.9".parse().expect("shares")), deferred: None };
    let asked = LoadOptions { experts, ..options() };
    let want = all_bits(&load(&path, asked.clone()));
    assert!(want != all_bits(&load(&path, options())), "the approximation acts");
    assert!(all_bits(&load(&path, LoadOptions { stages, ..asked })) == want);
}

pub fn refused(path: &Path, options: LoadOptions) -> String {
    Model::load(Some(path), options).err().expect("refused").to_string()
}

#[test]
fn ranks_that_cannot_serve_are_named_with_the_reason() {
    let models = Models::new();
    let llama = models.folder("llama");
    let other = in_stages(&models.folder("qwen2"), &[0], options());
    assert!(refused(&llama, other).contains("has another model, or other adapters"));
    let nobody = LoadOptions { stages: "127.0.0.1:1".parse().expect("an address"), ..options() };
    let error = refused(&llama, nobody);
    assert!(error.contains("the rank 127.0.0.1:1: it cannot be reached"), "{error}");
    let error = refused(&llama, in_stages(&llama, &[0; 9], options()));
    assert!(error.contains("fewer layers than machines"), "{error}");
    let error = refused(&llama, in_stages(&llama, &[99], options()));
    assert!(error.contains("have 99 layers"), "{error}");
    let shared = in_stages(&llama, &[0], options());
    let first = load(&llama, shared.clone());
    let error = refused(&llama, shared.clone());
    assert!(error.contains("it computes layers for 127.0.0.1"), "{error}");
    let want = all_bits(&first);
    first.close();
    drop(first);
    // The rank is told that its leader is gone by the connection's end.
    let again = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Model::load(Some(&llama), shared.clone()).ok()
    });
    assert!(all_bits(&again.expect("the rank serves the next one")) == want);
}
