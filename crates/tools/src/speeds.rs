//! Foretold speeds, as people read them and as JSON.

use lamina::SpeedForecast;
use serde_json::{Value, json};

/// Of decoding and of prompts.
pub(crate) fn speeds(decode: &[SpeedForecast], prefill: &[SpeedForecast]) -> String {
    let decoding = |s: &SpeedForecast| {
        let turns = if s.running < s.batch { format!(", {} at once", s.running) } else { String::new() };
        let plural = if s.batch == 1 { "" } else { "s" };
        format!("{} sequence{plural} {} tokens/s ({}{turns})", s.batch, figure(s.tok_s), s.bound.name())
    };
    let prompt = |s: &SpeedForecast| {
        let (seconds, rate) = (figure(s.tokens as f64 / s.tok_s), figure(s.tok_s));
        format!("prompt of {}: {seconds} s, {rate} tokens/s", s.tokens)
    };
    let all: Vec<_> = decode.iter().map(decoding).chain(prefill.iter().map(prompt)).collect();
    all.join(" | ")
}

pub(crate) fn speed_json(s: &SpeedForecast) -> Value {
    json!({"n": s.tokens, "batch": s.batch, "running": s.running, "tok_s": s.tok_s,
           "bound": s.bound.name(), "streamed_bytes": s.streamed_bytes, "cache_read_bytes": s.cache_bytes.0,
           "cache_written_bytes": s.cache_bytes.1})
}

/// Three figures.
pub(crate) fn figure(n: f64) -> String {
    match n {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
