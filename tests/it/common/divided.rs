//! What has to be the same where several machines run a model, however it is divided among them.

use super::{
    answers::{self, Bits, bits, top_bits},
    load,
};
use crate::{lora, pictures};
use lamina::{
    Completion, GenerateOptions, KvSwap, LoadOptions, Model, Prompt, Special, SwapChoice, TokenStream,
};
use lamina_fixtures::tokens;
use std::path::Path;

/// How a model is divided: its options, with ranks.
pub type Division<'a> = &'a dyn Fn(&Path, LoadOptions) -> LoadOptions;

pub fn options() -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(256), batch_rows: Some(32), ..LoadOptions::default() }
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

/// Steps of many rows, some of one sequence and some of several, beside answers that go on.
pub fn large_steps(path: &Path, options: LoadOptions, division: Division<'_>) {
    let options = LoadOptions { batch_rows: Some(400), ..options };
    let bits = |model: &Model| {
        let logits: Vec<u32> =
            model.logits(&tokens(240)).expect("runs").into_iter().map(f32::to_bits).collect();
        let prompt = |i: u32| Prompt::Tokens(tokens(60 + 55 * i).split_off(i as usize));
        let asked: Vec<_> = (0..4).map(|i| (prompt(i), request(0))).collect();
        (logits, answers::together(model, &asked))
    };
    let want = bits(&load(path, options.clone()));
    assert!(bits(&load(path, division(path, options))) == want, "{}", path.display());
}

/// Requests in a cache of `share` of what one sequence takes: those that lose their memory are computed again by all machines, or go
/// on from the pages of all that were swapped.
pub fn preempted(path: &Path, share: (u64, u64), division: Division<'_>) {
    let swapped = KvSwap { choice: SwapChoice::Always, .."ram:64MiB".parse().expect("a size") };
    let whole = load(path, options());
    let mut o = request(1);
    o.max_tokens = Some(60);
    let prompts: Vec<Vec<u32>> = (0..4).map(|i| tokens(60 + i).split_off(i as usize)).collect();
    let want: Vec<_> = prompts.iter().map(|prompt| bits(&answers::answer(&whole, prompt, &o))).collect();
    let kv_memory = Some(whole.info().kv_bytes_per_sequence * share.0 / share.1);
    for kv_swap in [KvSwap::default(), swapped] {
        let small = load(path, division(path, LoadOptions { kv_memory, kv_swap, ..options() }));
        let start = |prompt: &Vec<u32>| small.stream(&Prompt::Tokens(prompt.clone()), &o).expect("starts");
        // On a busy machine one may have ended before the next one begins: nobody is preempted then.
        let preempted = (0..10).any(|_| {
            let streams: Vec<TokenStream> = prompts.iter().map(start).collect();
            let mut preempted = 0;
            for (i, stream) in streams.into_iter().enumerate() {
                let mut answer = Completion::empty();
                stream
                    .map(|piece| piece.expect("runs"))
                    .filter(|p| p.index == 0)
                    .for_each(|p| answer.push(p));
                preempted += answer.timings.preemptions;
                assert_eq!(bits(&answer), want[i], "{}: {i}", path.display());
            }
            preempted > 0
        });
        assert!(preempted, "{}: the cache was not too small", path.display());
    }
}

/// A session that is saved where the model is divided in one way goes on where it is divided in another one.
pub fn session_goes_on(path: &Path, file: &Path, from: Division<'_>, to: Division<'_>) {
    let answer = |model: &Model, tokens: &[u32]| {
        let o = GenerateOptions { max_tokens: Some(20), ..request(0) };
        top_bits(&model.generate(&Prompt::Tokens(tokens.to_vec()), &o).expect("runs")[0])
    };
    let (text, longer) = (tokens(200), tokens(220));
    let want = answer(&load(path, options()), &longer);
    let first = load(path, from(path, options()));
    answer(&first, &text);
    first.save_session(file, &text, &serde_json::Value::Null).expect("saved");
    first.close();
    let second = load(path, to(path, options()));
    assert_eq!(second.load_session(file).expect("read").cached_tokens, 192, "{}", path.display());
    assert_eq!(answer(&second, &longer), want, "{}", path.display());
}

/// Rows behind each layer come from whoever computes it.
pub fn hidden_rows(path: &Path, division: Division<'_>) {
    let (whole, divided) = (load(path, options()), load(path, division(path, options())));
    for layer in 0..=whole.info().layers as isize {
        let rows = |model: &Model| {
            let rows = model.hidden(&tokens(70), layer).expect("runs");
            rows.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert!(rows(&divided) == rows(&whole), "{} behind {layer} layers", path.display());
    }
}

/// Each machine has its part of an adapter of family `name`, which is a request's own affair.
pub fn adapters(path: &Path, name: &str, division: Division<'_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let adapter = lora::peft(folder.path(), name, &lora::changes(path, 3, false), false);
    let adapted = LoadOptions { loras: vec![("one".into(), adapter)], ..options() };
    let bits = |model: Model| {
        let plain = all_bits(&model);
        (plain, all_bits(&model.with_lora(&[("one", 0.7)]).expect("known")))
    };
    let want = bits(load(path, adapted.clone()));
    assert!(want.0 != want.1, "{name}: the adapter acts");
    assert!(bits(load(path, division(path, adapted))) == want, "{name}");
}

/// Rows of pictures enter with the embedding, and what is added behind the first layers is added where these are.
pub fn seen_pictures(name: &str, division: Division<'_>) {
    let Some(path) = pictures::folder(name) else { return };
    let case = pictures::cases(name).into_iter().find(|case| case.name == "two").expect("a case");
    let bits = |model: &Model| {
        let text = model.expand_images(&case.prompt, &case.pictures).expect("expands");
        let tokens = model.tokenize(&text, Special::ADD_AND_PARSE).expect("tokens");
        let logits = model.logits_seeing(&tokens, &case.pictures).expect("runs");
        logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let want = bits(&pictures::load(&path, |o| o));
    assert!(bits(&pictures::load(&path, |o| division(&path, o))) == want, "{name}");
}

pub fn refused(path: &Path, options: LoadOptions) -> String {
    Model::load(Some(path), options).err().expect("refused").to_string()
}
