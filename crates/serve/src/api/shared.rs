//! What several dialects say alike.

use crate::{models::LiveModel, run::ChoiceEnd};
use lamina::{Timings, Tokenizer};
use serde_json::{Value, json};

/// What a model takes beside text, in llama-server's words; nothing where it is not loaded.
pub fn modalities(live: Option<&LiveModel>) -> Value {
    let model = live.map(|live| &live.model);
    json!({
        "vision": model.is_some_and(|model| model.vision().is_some()),
        "audio": model.is_some_and(|model| model.hearing().is_some()),
    })
}

/// llama-server's times of an answer, and those of its pictures and sounds.
pub fn timings(end: &ChoiceEnd) -> Value {
    let mut times = times(&end.timings);
    for (name, tokens) in [("image_n", end.usage.media.image), ("audio_n", end.usage.media.audio)] {
        if tokens > 0 {
            times[name] = tokens.into();
            times["encode_ms"] = (end.encode_seconds * 1e3).into();
        }
    }
    times
}

/// The same of one that may still grow.
pub fn times(t: &Timings) -> Value {
    let computed = t.prompt_tokens - t.cached_tokens.min(t.prompt_tokens);
    let rate = |n: usize, seconds: f64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let mut times = json!({
        "cache_n": t.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": t.prefill_seconds * 1e3,
        "prompt_per_second": rate(computed, t.prefill_seconds),
        "predicted_n": t.tokens,
        "predicted_ms": t.decode_seconds * 1e3,
        "predicted_per_second": rate(t.tokens.saturating_sub(1), t.decode_seconds),
    });
    if t.disk_tokens > 0 {
        times["cache_disk_n"] = t.disk_tokens.into();
    }
    if t.speculation.steps > 0 {
        times["draft_n"] = t.speculation.drafted.into();
        times["draft_n_accepted"] = t.speculation.accepted.into();
    }
    times
}

/// Text of a token by itself; bytes that are no UTF-8 become U+FFFD.
pub fn piece(tokenizer: Option<&Tokenizer>, id: u32) -> (String, Vec<u8>) {
    let bytes = tokenizer.and_then(|t| t.token_bytes(id)).unwrap_or_default();
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}

/// A logarithm of a probability as JSON has it: there is no minus infinity.
pub fn logprob(value: f32) -> f64 {
    f64::from(value.max(-9999.0))
}
