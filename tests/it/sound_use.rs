//! Sounds where an answer does not simply run to its end: guessed, forked, found on disk, saved and gone on with. No
//! bit of it depends on that.

use crate::{
    pictures::{folder, load},
    sounds::{FAMILY, greedy, sweep},
};
use lamina::{
    Completion, DraftSource, GenerateOptions, KvSwap, LoadOptions, MediaInputs, Model, Prompt, Special,
    sound::Sound,
};
use serde_json::Value;
use std::sync::Arc;

/// A question whose sound lies in full pages.
const QUESTION: &str = "<|AUDIO|>What is it that you hear there? What is it that you hear there?";

/// A part of the sweep: each has rows of its own.
fn part(i: usize) -> Arc<Sound> {
    Arc::new(Sound::new(sweep().samples()[i * 400..].to_vec(), 16_000).unwrap())
}

/// Sampled by a seed, with logarithms.
fn asked(i: usize, tokens: usize) -> GenerateOptions {
    let mut options = GenerateOptions { max_tokens: Some(tokens), ..greedy(&[part(i)]) };
    options.sampling.set("temperature", 1.0).unwrap();
    options.sampling.set("seed", i as i64).unwrap();
    options.sampling.set("logprobs", 1i64).unwrap();
    options
}

fn ask(model: &Model, options: &GenerateOptions) -> Completion {
    model.generate(&Prompt::Text(QUESTION.into()), options).unwrap().remove(0)
}

fn bits(answer: &Completion) -> Vec<(u32, u32)> {
    answer.tokens.iter().zip(&answer.logprobs).map(|(&token, (log, _))| (token, log.to_bits())).collect()
}

fn encoded(model: &Model) -> u64 {
    model.sound_encoder().unwrap().counts().encoded
}

#[test]
fn guesses_change_nothing_behind_sounds() {
    let Some(path) = folder(FAMILY) else { return };
    let mut options = asked(0, 24);
    options.sampling.set("temperature", 0.0).unwrap();
    // A text that repeats itself, whatever the last bits of an instruction set make of a random model.
    options.sampling.set("presence_penalty", -2.0).unwrap();
    let want = bits(&ask(&load(&path, |o| o), &options));
    for source in [DraftSource::Ngram, DraftSource::Model(path.clone())] {
        let drafted = load(&path, |o| LoadOptions { draft: Some(source.clone()), draft_width: Some(3), ..o });
        let answer = ask(&drafted, &options);
        assert_eq!(bits(&answer), want, "{source:?}");
        assert!(answer.timings.speculation.drafted > 0, "{source:?}");
    }
}

#[test]
fn answers_to_one_sound_share_it_and_go_their_own_ways() {
    let Some(path) = folder(FAMILY) else { return };
    let model = load(&path, |o| LoadOptions { reuse_prefixes: false, ..o });
    let alone = ask(&model, &asked(1, 12));
    let several = GenerateOptions { n: 4, ..asked(1, 12) };
    let several = model.generate(&Prompt::Text(QUESTION.into()), &several).unwrap();
    assert_eq!(bits(&several[0]), bits(&alone), "the first of several is the one alone");
    assert!(several.iter().any(|a| a.tokens != alone.tokens), "forks go their own ways");
    assert!(several.iter().all(|a| a.media.sounds == several[0].media.sounds));
    assert_eq!(encoded(&model), 1, "all of them hear the same rows");
}

#[test]
fn a_sound_is_found_on_disk_by_another_process() {
    let Some(path) = folder(FAMILY) else { return };
    let dir = tempfile::tempdir().unwrap();
    let keep = |o| LoadOptions { cache_dir: Some(dir.path().into()), ..o };
    let model = load(&path, keep);
    let want = ask(&model, &asked(2, 8));
    model.close();
    let other = load(&path, keep);
    let got = ask(&other, &asked(2, 8));
    assert_eq!(bits(&got), bits(&want));
    assert!(got.usage.disk_tokens > 0);
    assert_eq!(encoded(&other), 0);
    let fresh = ask(&other, &asked(3, 8));
    assert_eq!((fresh.usage.cached_tokens, encoded(&other)), (0, 1), "another sound is another prompt");
}

/// Answers at once, and their tokens: long enough for all to be there at the same time.
const MANY: usize = 4;
const LONG: usize = 400;

#[test]
fn a_sequence_that_gave_way_goes_on_behind_its_sound() {
    let Some(path) = folder(FAMILY) else { return };
    let loaded = |kv_swap: &KvSwap, kv_memory: Option<u64>, image_cache: u64| {
        load(&path, |o| LoadOptions {
            context: Some(512),
            kv_memory,
            kv_swap: *kv_swap,
            // Rows that are evicted meanwhile are made again.
            image_cache,
            ..o
        })
    };
    let asked = |i| GenerateOptions { ignore_eos: true, ..asked(i, LONG) };
    let never = KvSwap::default();
    let enough = loaded(&never, None, 0);
    let one = enough.info().kv_bytes_per_sequence;
    let want: Vec<_> = (0..MANY).map(|i| bits(&ask(&enough, &asked(i)))).collect();
    for (swap, image_cache) in [(never, 0), ("8MiB".parse().unwrap(), 1 << 20)] {
        let model = loaded(&swap, Some(one * 3 / 2), image_cache);
        let text = Prompt::Text(QUESTION.into());
        let streams: Vec<_> = (0..MANY).map(|i| model.stream(&text, &asked(i)).unwrap()).collect();
        for (i, stream) in streams.into_iter().enumerate() {
            let mut answer = Completion::empty();
            stream.for_each(|piece| answer.push(piece.unwrap()));
            assert_eq!(bits(&answer), want[i], "{i} with {swap:?}");
        }
        assert!(model.snapshot().counters.preemptions > 0, "memory was not too small with {swap:?}");
    }
}

fn ids(model: &Model, text: &str, sounds: &[Arc<Sound>]) -> Vec<u32> {
    let media = MediaInputs { images: vec![], sounds: sounds.to_vec() };
    model.media_tokens(&Prompt::Text(text.into()), &media).unwrap()
}

#[test]
fn a_session_with_sounds_goes_on_without_encoding_them() {
    let Some(path) = folder(FAMILY) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, options) = (dir.path().join("state"), asked(0, 8));
    let model = load(&path, |o| o);
    let want = ask(&model, &options);
    let tokens = ids(&model, QUESTION, &options.sounds);
    model.save_session_with(&file, &tokens, &(&options).into(), &Value::Null).unwrap();
    let other = load(&path, |o| o);
    let saved = other.load_session(&file).unwrap();
    assert!(saved.cached_tokens >= 32 && saved.tokens == tokens);
    let got = ask(&other, &options);
    assert_eq!((bits(&got), got.usage.cached_tokens), (bits(&want), saved.cached_tokens));
    assert_eq!(encoded(&other), 0);
    // Saved without its sounds, the text before them is all that is kept.
    model.save_session(&file, &tokens, &Value::Null).unwrap();
    assert!(load(&path, |o| o).load_session(&file).unwrap().cached_tokens < saved.cached_tokens);
}

#[test]
fn a_session_that_stops_before_the_first_sound_goes_on_with_it() {
    let Some(path) = folder(FAMILY) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, options) = (dir.path().join("state"), asked(0, 8));
    let before = "Listen well to what is played to you now. ".repeat(3);
    let whole = Prompt::Text(format!("{before}<|AUDIO|>What is it?"));
    let want = load(&path, |o| o).generate(&whole, &options).unwrap().remove(0);
    let model = load(&path, |o| o);
    let said = model.tokenize(&before, Special::ADD_AND_PARSE).unwrap();
    model
        .generate(&Prompt::Tokens(said.clone()), &GenerateOptions { max_tokens: Some(1), ..greedy(&[]) })
        .unwrap();
    model.save_session(&file, &said, &Value::Null).unwrap();
    let other = load(&path, |o| o);
    let saved = other.load_session(&file).unwrap();
    let got = other.generate(&whole, &options).unwrap().remove(0);
    assert!(saved.cached_tokens >= 32 && got.usage.cached_tokens >= 32, "{saved:?} {:?}", got.usage);
    assert_eq!(bits(&got), bits(&want));
    assert_eq!(encoded(&other), 1);
}
