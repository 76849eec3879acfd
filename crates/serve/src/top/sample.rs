//! One sample: what a server does now, and what it did since the one before.

use crate::{
    app::App,
    log::{LogEntry, rounded},
    metrics::resident_bytes,
    models::{ModelSlot, Phase},
};
use lamina::{Counters, SequenceState, Snapshot};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::{Instant, SystemTime},
};

/// Requests that are shown at most.
const MOST: usize = 64;

/// Numbers of a line in this order: what charts need of a sample.
pub const LINE: [&str; 14] = [
    "time",
    "out",
    "in",
    "running",
    "waiting",
    "held",
    "cached",
    "pages",
    "preemptions",
    "first50",
    "first99",
    "between50",
    "between99",
    "resident",
];

/// Remembers what it saw last, for rates.
#[derive(Default)]
pub struct LiveSampler {
    last: Option<LastSample>,
}

struct LastSample {
    at: Instant,
    tokens: (u64, u64),
    engines: HashMap<String, Counters>,
}

impl LiveSampler {
    /// A sample of this moment.
    pub fn sample(&mut self, app: &App) -> Value {
        let slots = app.models.slots();
        let boards: Vec<_> =
            slots.iter().map(|slot| (slot, slot.live().map(|l| l.model.snapshot()))).collect();
        let names = slots.iter().flat_map(|s| std::iter::once(s.name.as_str()).chain(s.adapters()));
        let (now, tokens) = (Instant::now(), app.metrics.token_counts(names));
        let rate = |of: fn(&(u64, u64)) -> u64| {
            let last = self.last.as_ref()?;
            let seconds = now.saturating_duration_since(last.at).as_secs_f64();
            (seconds > 0.0).then(|| of(&tokens).saturating_sub(of(&last.tokens)) as f64 / seconds)
        };
        let (out, read) = (rate(|t| t.1), rate(|t| t.0));
        let models: Vec<Value> =
            boards.iter().map(|(slot, board)| self.model(slot, board.as_deref())).collect();
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let goal = app.options.goal;
        let sample = json!({
            "time": (time.as_secs_f64() * 1e3).round() / 1e3,
            "uptime": app.began.elapsed().as_secs(),
            "version": env!("CARGO_PKG_VERSION"),
            "draining": app.is_draining(),
            "connections": app.connections.load(Ordering::Relaxed),
            "models": models,
            "prompt_tokens": tokens.0, "generation_tokens": tokens.1,
            "out": out.map(short), "in": read.map(short),
            "first_token": app.first_tokens.told(goal.first),
            "between_tokens": app.gaps.told(goal.between),
            "resident": resident_bytes(),
            "requests": requests(app, &boards, now),
        });
        let counters = |(slot, board): &(&Arc<ModelSlot>, Option<Arc<Snapshot>>)| {
            Some((slot.name.clone(), board.as_ref()?.counters))
        };
        self.last =
            Some(LastSample { at: now, tokens, engines: boards.iter().filter_map(counters).collect() });
        sample
    }

    fn model(&self, slot: &ModelSlot, board: Option<&Snapshot>) -> Value {
        let phase = slot.phase();
        let why = match &phase {
            Phase::Failed(failure) => Some(slot.without_paths(&failure.why)),
            _ => None,
        };
        let Some(s) = board else { return json!({ "name": slot.name, "state": phase.name(), "why": why }) };
        let before = self.last.as_ref().and_then(|last| last.engines.get(&slot.name)).copied();
        // Fewer steps than before: another engine.
        let before = before.filter(|b| b.steps <= s.counters.steps).unwrap_or(s.counters);
        let busy = s.running.iter().any(|r| !r.paused);
        let age = s.last_step.filter(|_| busy).map(|step| step.ended.elapsed().as_secs_f64());
        let cached = s.cached_pages.min(s.free_pages);
        let swapped = s.waiting.iter().chain(&s.running).filter(|r| r.swapped).count();
        let (now, then) = (&s.counters, &before);
        let kinds = json!({
            "decode": now.tallies.decode.sum - then.tallies.decode.sum,
            "prompt": now.tallies.prompt.sum - then.tallies.prompt.sum,
            "mixed": now.tallies.mixed.sum - then.tallies.mixed.sum,
        });
        let phases: serde_json::Map<String, Value> = now
            .phases
            .since(&then.phases)
            .named()
            .iter()
            .map(|(name, s)| ((*name).to_owned(), json!(s)))
            .collect();
        json!({
            "name": slot.name, "state": phase.name(), "why": why, "step_age": age.map(short),
            "running": s.running.len(), "waiting": s.waiting.len(),
            "paused": s.running.iter().filter(|r| r.paused).count(), "swapped": swapped,
            "pages": { "held": s.pages.saturating_sub(s.free_pages), "cached": cached, "free": s.free_pages - cached },
            "preemptions": now.preemptions, "steps": now.steps, "disk_tokens": now.disk_tokens,
            "kinds": kinds, "phases": phases,
        })
    }
}

/// The numbers of [`LINE`].
pub fn line(sample: &Value) -> Value {
    let models = || sample["models"].as_array().into_iter().flatten();
    let sum = |get: &dyn Fn(&Value) -> Option<u64>| models().filter_map(get).sum::<u64>();
    let of = |name: &'static str| sum(&|m| m[name].as_u64());
    let page = |name: &'static str| sum(&|m| m["pages"][name].as_u64());
    json!([
        sample["time"],
        sample["out"],
        sample["in"],
        of("running"),
        of("waiting"),
        page("held"),
        page("cached"),
        page("held") + page("cached") + page("free"),
        of("preemptions"),
        sample["first_token"]["p50"],
        sample["first_token"]["p99"],
        sample["between_tokens"]["p50"],
        sample["between_tokens"]["p99"],
        sample["resident"],
    ])
}

/// Requests that asked a model and have not ended, the oldest first. Never a text.
fn requests(app: &App, boards: &[(&Arc<ModelSlot>, Option<Arc<Snapshot>>)], now: Instant) -> Vec<Value> {
    let mut sequences: HashMap<u64, (bool, &SequenceState)> = HashMap::new();
    for board in boards.iter().filter_map(|(_, board)| board.as_ref()) {
        let all = board.waiting.iter().map(|s| (false, s)).chain(board.running.iter().map(|s| (true, s)));
        // Of several answers the first one speaks.
        all.filter(|(_, s)| s.tag > 0).for_each(|found| _ = sequences.entry(found.1.tag).or_insert(found));
    }
    let told = |log: crate::log::RequestLog| {
        let entry = log.entry();
        let asked = entry.model.is_some() && entry.status < 400;
        asked.then(|| request(&entry, sequences.get(&entry.number).copied(), now))
    };
    app.open.all().into_iter().filter_map(told).take(MOST).collect()
}

fn request(entry: &LogEntry, sequence: Option<(bool, &SequenceState)>, now: Instant) -> Value {
    let age = now.saturating_duration_since(entry.arrival);
    let tokens = entry.counted.completion;
    let since = entry.first_token.map(|first| age.saturating_sub(first).as_secs_f64());
    let rate = since.filter(|s| *s > 0.2).map(|s| tokens.saturating_sub(1) as f64 / s);
    let done = sequence.map(|(_, s)| s.computed.min(s.prompt_tokens));
    json!({
        "id": *entry.id, "key": entry.key.as_deref(), "model": entry.model, "age_ms": rounded(age),
        "station": station(entry, sequence), "prompt": entry.usage.prompt, "computed": done,
        "tokens": tokens, "rate": rate.map(short), "preemptions": entry.preemptions,
    })
}

/// What it waits for now.
fn station(entry: &LogEntry, sequence: Option<(bool, &SequenceState)>) -> &'static str {
    match sequence {
        _ if entry.submitted.is_none() => "read",
        Some((true, s)) if s.paused => "reader",
        Some((true, s)) if s.tokens > 0 => "decode",
        Some((true, _)) => "prefill",
        Some((false, s)) if s.computed > 0 || s.tokens > 0 => "preempted",
        Some((false, _)) => "queue",
        None if entry.timed => "rest",
        None if entry.first_token.is_some() => "decode",
        None => "queue",
    }
}

fn short(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
