//! Models that hear, from files of sound and texts to logits and greedy tokens, beside the reference's own code; and the same
//! bits however a sound's rows come.

use crate::pictures::{error, folder, load, stored};
use lamina::{
    ChatOptions, GenerateOptions, Model, Prompt,
    sound::{Sound, SoundLimits, decode},
};
use serde_json::{Value, json};
use std::{slice::from_ref, sync::Arc};

pub const FAMILY: &str = "qwen2-audio";

/// The sound of the fixtures: a rising tone in noise (`make_fixtures.py` of the crate of sound).
pub fn sweep() -> Arc<Sound> {
    let file = include_bytes!("../../crates/sound/tests/files/sweep.wav");
    Arc::new(decode(file, &SoundLimits::default()).unwrap())
}

fn messages() -> Vec<Value> {
    vec![json!({"role": "user", "content": [{"type": "audio"}, {"type": "text", "text": "hear?"}]})]
}

pub fn greedy(sounds: &[Arc<Sound>]) -> GenerateOptions {
    GenerateOptions { sounds: sounds.to_vec(), ..crate::pictures::greedy(&[]) }
}

fn ids(name: &str) -> Vec<u32> {
    stored(FAMILY, "sound", name).iter().map(|&id| id as u32).collect()
}

#[test]
fn qwen2_audio_hears_as_the_reference() {
    let Some(path) = folder(FAMILY) else { return };
    let (model, sounds) = (load(&path, |o| o), [sweep()]);
    let tokens = ids("input_ids");
    let chat = ChatOptions { sounds: sounds.to_vec(), ..ChatOptions::default() };
    assert_eq!(model.chat_tokens(&messages(), &chat).unwrap(), tokens, "what a part becomes");
    let rows = model.sound_rows(&sounds[0]).unwrap();
    let want = &stored(FAMILY, "sound", "projected")[..rows.rows.len()];
    assert!(error(&rows.rows, want) < 1e-4, "rows are off by {:.1e}", error(&rows.rows, want));
    let options = GenerateOptions { sounds: sounds.to_vec(), ..GenerateOptions::default() };
    let (logits, want) = (model.logits_with(&tokens, &options).unwrap(), stored(FAMILY, "sound", "logits"));
    assert!(error(&logits, &want) < 1e-4, "logits are off by {:.1e}", error(&logits, &want));
    let answer = model.generate(&Prompt::Tokens(tokens), &greedy(&sounds)).unwrap();
    let margins = stored(FAMILY, "sound", "greedy_margin");
    let sure = margins.iter().take_while(|m| **m >= crate::pictures::TIE).count();
    assert_eq!(answer[0].tokens[..sure], ids("greedy")[..sure], "greedy tokens");
}

/// Log-probabilities of an answer, bit by bit.
fn bits(model: &Model, prompt: &str, sounds: &[Arc<Sound>]) -> Vec<u32> {
    let mut options = greedy(sounds);
    options.sampling.set("logprobs", 1i64).unwrap();
    let answer = model.generate(&Prompt::Text(prompt.into()), &options).unwrap().remove(0);
    answer.logprobs.iter().map(|l| l.0.to_bits()).collect()
}

#[test]
fn a_sound_gives_the_same_bits_in_steps_of_any_size_and_from_caches() {
    let Some(path) = folder(FAMILY) else { return };
    let other = Arc::new(Sound::new(sweep().samples()[4_000..20_000].to_vec(), 16_000).unwrap());
    let (prompt, sounds) = ("one <|AUDIO|> two <|AUDIO|> three", [sweep(), other.clone()]);
    let want = bits(&load(&path, |o| o), prompt, &sounds);
    assert!(!want.is_empty());
    for rows in [7, 33, 64] {
        let model = load(&path, |o| lamina::LoadOptions { batch_rows: Some(rows), threads: Some(1), ..o });
        assert_eq!(bits(&model, prompt, &sounds), want, "steps of {rows} rows");
        assert_eq!(bits(&model, prompt, &sounds), want, "found in the cache of prompts");
        // Another prompt: its pages are new, the rows of its sounds are kept.
        bits(&model, "<|AUDIO|> alone", from_ref(&other));
        assert_eq!(bits(&model, prompt, &sounds), want, "behind another prompt");
        let counts = model.sound_encoder().unwrap().counts();
        assert_eq!((counts.encoded, counts.cache_hits > 0), (2, true), "each sound is encoded once");
    }
}

#[test]
fn what_cannot_be_heard_is_said() {
    let Some(path) = folder(FAMILY) else { return };
    let model = load(&path, |o| o);
    let refused = |chat: &ChatOptions| model.chat_tokens(&messages(), chat).unwrap_err().to_string();
    assert!(refused(&ChatOptions::default()).contains("1 sounds, but 0"));
    let click = Arc::new(Sound::new(vec![0.5; 10], 16_000).unwrap());
    let short = refused(&ChatOptions { sounds: vec![click], ..ChatOptions::default() });
    assert!(short.contains("too short") && short.contains("0.040 s"), "{short}");
    let spelled =
        ChatOptions { sounds: vec![sweep()], no_split_special_tokens: true, ..ChatOptions::default() };
    assert!(refused(&spelled).contains("leave that option out"));
    let deaf = load(&path, |o| lamina::LoadOptions { mmproj: lamina::MmprojChoice::Off, ..o });
    let chat = ChatOptions { sounds: vec![sweep()], ..ChatOptions::default() };
    let error = deaf.chat_tokens(&messages(), &chat).unwrap_err().to_string();
    assert!(error.contains("messages[0].content[0]") && error.contains("does not hear"), "{error}");
}
