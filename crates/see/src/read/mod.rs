//! What a trace says: the way of one request through it, times against limits, doubts.

mod doubts;
mod glances;
mod lens;
mod limits;
mod request;
mod strip;

pub use doubts::{Doubt, doubts};
pub use glances::{HeadGlance, HeadHabit, glances};
pub(crate) use lens::lens_rows;
pub use lens::{KnownToken, known};
pub use limits::{OpLimit, op_limits, step_limits};
pub use request::of_tag;
pub use strip::{StripStep, StripToken, TextStrip};

use crate::trace::Trace;
use serde_json::{Value, json};

/// The figures that a program asks first: tokens, times, speeds, and how near the machine came to its limits.
pub fn summary(trace: &Trace) -> Value {
    let strip = TextStrip::of(trace);
    let decode: Vec<u64> = strip.steps.iter().filter(|s| !s.prompt).map(|s| s.ns).collect();
    let prompt: u64 = strip.steps.iter().filter(|s| s.prompt).map(|s| s.ns).sum();
    let middle = median(decode.clone());
    let limits = strip.middle_decode.map(|row| {
        let limit = step_limits(trace, row);
        json!({"step_ns": limit.ns, "bytes": limit.bytes, "flop": limit.flop, "memory_ns": limit.memory_ns})
    });
    let phases = phases(trace);
    let phases: serde_json::Map<_, _> =
        phases.iter().map(|(name, ns)| ((*name).to_owned(), json!(ns))).collect();
    json!({
        "model": trace.run.model.name, "detail": trace.run.detail,
        "prompt_tokens": strip.tokens.iter().filter(|t| t.prompt).count(),
        "answer_tokens": strip.tokens.iter().filter(|t| !t.prompt).count(),
        "steps": trace.events.step.step.len(),
        "prefill_ms": prompt as f64 / 1e6,
        "decode_ms": middle.map(|ns| ns as f64 / 1e6),
        "decode_tok_s": decode_speed(&decode),
        "limits": limits, "phases_ns": phases, "dropped": trace.run.dropped,
    })
}

/// Tokens per second of steps of one token each.
fn decode_speed(ns: &[u64]) -> Option<f64> {
    let all: u64 = ns.iter().sum();
    (all > 0).then(|| ns.len() as f64 * 1e9 / all as f64)
}

/// Nanoseconds of all steps, by phase.
pub fn phases(trace: &Trace) -> [(&'static str, u64); 6] {
    let s = &trace.events.step;
    let sum = |column: &[u64]| column.iter().sum::<u64>();
    [
        ("schedule", sum(&s.schedule)),
        ("fill", sum(&s.fill)),
        ("tell", sum(&s.tell)),
        ("machine", sum(&s.machine)),
        ("choose", sum(&s.choose)),
        ("commit", sum(&s.commit)),
    ]
}

/// Nanoseconds of a step, by its row.
pub(crate) fn step_ns(trace: &Trace, row: usize) -> u64 {
    let s = &trace.events.step;
    s.schedule[row] + s.fill[row] + s.tell[row] + s.machine[row] + s.choose[row] + s.commit[row]
}

/// The middle of values, the upper one of two.
pub(crate) fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
