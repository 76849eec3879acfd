//! Numbers that requests bring.

use super::{
    labels::{EndLabel, ModelLabel, StatusLabel, TenantLabel, WhyLabel},
    registrar::{Histograms, Registrar, Seconds},
};
use crate::{dialect::Dialect, log::LogEntry, run::TokenUsage};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use std::time::Duration;

/// vLLM's buckets.
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const BETWEEN_TOKENS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const WHOLE: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];

/// Counters of one model's tokens. Clones are the same.
#[derive(Clone)]
pub struct TokenCounters {
    /// Tokens of prompts.
    pub prompt: Counter,
    /// Tokens of answers.
    pub generated: Counter,
}

/// Numbers that requests bring, most of them when they end.
pub(super) struct Requests {
    prompt_tokens: Family<ModelLabel, Counter>,
    generation_tokens: Family<ModelLabel, Counter>,
    success: Family<EndLabel, Counter>,
    answered: Family<StatusLabel, Counter>,
    cancelled: Family<WhyLabel, Counter>,
    rejected: Family<WhyLabel, Counter>,
    images: Family<ModelLabel, Counter>,
    image_tokens: Family<ModelLabel, Counter>,
    sounds: Family<ModelLabel, Counter>,
    audio_tokens: Family<ModelLabel, Counter>,
    encode: Seconds<ModelLabel>,
    tenants: Seconds<TenantLabel>,
    first_token: Histograms,
    between_tokens: Histograms,
    whole: Histograms,
    queue: Histograms,
    prefill: Histograms,
    decode: Histograms,
    prompt_size: Histograms,
    answer_size: Histograms,
}

fn first_token_buckets() -> Histogram {
    Histogram::new(FIRST_TOKEN.iter().copied())
}

fn between_tokens_buckets() -> Histogram {
    Histogram::new(BETWEEN_TOKENS.iter().copied())
}

fn whole_buckets() -> Histogram {
    Histogram::new(WHOLE.iter().copied())
}

fn token_buckets() -> Histogram {
    Histogram::new(TOKENS.iter().copied())
}

impl Requests {
    pub fn new(r: &mut Registrar<'_>) -> Requests {
        Requests {
            prompt_tokens: r.counter("prompt_tokens", "Tokens of prompts, cached ones too"),
            generation_tokens: r.counter("generation_tokens", "Tokens of answers"),
            success: r.counter("request_success", "Requests that ended as they should"),
            answered: r.counter("requests", "Responses"),
            cancelled: r.counter("requests_cancelled", "Requests that did not end as they should"),
            rejected: r.counter("rejected", "Requests that were refused before they were queued"),
            images: r.counter("images", "Pictures of requests"),
            image_tokens: r
                .counter("image_tokens", "Tokens of prompts in whose places rows of pictures stand"),
            sounds: r.counter("sounds", "Sounds of requests"),
            audio_tokens: r.counter("audio_tokens", "Tokens of prompts in whose places rows of sounds stand"),
            encode: r.add(
                "encode_seconds",
                "Time in which pictures and sounds were encoded",
                Family::default(),
            ),
            tenants: r.add(
                "tenant_seconds",
                "Machine time by key; - is everybody without one",
                Family::default(),
            ),
            first_token: r.histogram(
                "time_to_first_token_seconds",
                "Arrival to first token",
                first_token_buckets,
            ),
            between_tokens: r.histogram(
                "inter_token_latency_seconds",
                "Time between tokens",
                between_tokens_buckets,
            ),
            whole: r.histogram("e2e_request_latency_seconds", "Arrival to last token", whole_buckets),
            queue: r.histogram("request_queue_time_seconds", "Arrival to first step", whole_buckets),
            prefill: r.histogram("request_prefill_time_seconds", "First step to first token", whole_buckets),
            decode: r.histogram("request_decode_time_seconds", "First token to last", whole_buckets),
            prompt_size: r.histogram("request_prompt_tokens", "Tokens of a prompt", token_buckets),
            answer_size: r.histogram("request_generation_tokens", "Tokens of an answer", token_buckets),
        }
    }

    /// Where tokens of a model's requests are counted while they come.
    pub fn tokens(&self, model: &str) -> TokenCounters {
        let label = ModelLabel { model_name: model.to_owned() };
        TokenCounters {
            prompt: self.prompt_tokens.get_or_create(&label).clone(),
            generated: self.generation_tokens.get_or_create(&label).clone(),
        }
    }

    /// Makes all numbers of a model, so that they are there before they are more than 0: a rate needs a first value.
    pub fn begin(&self, model: &str) {
        let label = ModelLabel { model_name: model.to_owned() };
        for counter in [
            &self.prompt_tokens,
            &self.generation_tokens,
            &self.images,
            &self.image_tokens,
            &self.sounds,
            &self.audio_tokens,
        ] {
            drop(counter.get_or_create(&label));
        }
        drop(self.encode.get_or_create(&label));
        for histogram in [
            &self.first_token,
            &self.between_tokens,
            &self.whole,
            &self.queue,
            &self.prefill,
            &self.decode,
            &self.prompt_size,
            &self.answer_size,
        ] {
            drop(histogram.get_or_create(&label));
        }
        for reason in FINISHED {
            let label = EndLabel { model_name: model.to_owned(), finished_reason: reason.into() };
            drop(self.success.get_or_create(&label));
        }
        for why in CANCELLED {
            drop(self.cancelled.get_or_create(&WhyLabel { why: why.into() }));
        }
        for why in REJECTED {
            drop(self.rejected.get_or_create(&WhyLabel { why: why.into() }));
        }
        for dialect in Dialect::ALL {
            let status = StatusLabel { dialect: dialect.name().into(), status: 200 };
            drop(self.answered.get_or_create(&status));
        }
    }

    pub fn finish(&self, entry: &LogEntry) {
        let status = StatusLabel { dialect: entry.dialect.name().into(), status: entry.status };
        self.answered.get_or_create(&status).inc();
        if let Some(why) = rejection(entry.status).filter(|_| !entry.queued) {
            self.rejected.get_or_create(&WhyLabel { why: why.into() }).inc();
        }
        if entry.machine_seconds > 0.0 {
            let tenant = entry.key.as_deref().unwrap_or("-").to_owned();
            self.tenants.get_or_create(&TenantLabel { tenant }).inc_by(entry.machine_seconds);
        }
        let (true, Some(model)) = (entry.queued, &entry.model) else { return };
        match entry.finish {
            Some(reason) if FINISHED.contains(&reason) => {
                let label = EndLabel { model_name: model.clone(), finished_reason: reason.into() };
                self.success.get_or_create(&label).inc();
            }
            Some(why) => _ = self.cancelled.get_or_create(&WhyLabel { why: why.into() }).inc(),
            None => {}
        }
        self.observe(entry, &ModelLabel { model_name: model.clone() });
    }

    fn observe(&self, entry: &LogEntry, label: &ModelLabel) {
        let seconds =
            |family: &Histograms, time: Duration| family.get_or_create(label).observe(time.as_secs_f64());
        // The rest of what was counted while it came.
        let TokenUsage { prompt, completion, .. } = entry.usage;
        self.prompt_tokens.get_or_create(label).inc_by(prompt.saturating_sub(entry.counted.prompt) as u64);
        let more = completion.saturating_sub(entry.counted.completion);
        self.generation_tokens.get_or_create(label).inc_by(more as u64);
        let completion = completion.max(entry.counted.completion);
        self.images.get_or_create(label).inc_by(entry.pictures.len() as u64);
        self.image_tokens.get_or_create(label).inc_by(entry.usage.media.image as u64);
        self.sounds.get_or_create(label).inc_by(entry.sounds.len() as u64);
        self.audio_tokens.get_or_create(label).inc_by(entry.usage.media.audio as u64);
        self.encode.get_or_create(label).inc_by(entry.encode_seconds);
        entry.first_token.iter().for_each(|t| seconds(&self.first_token, *t));
        let gaps = self.between_tokens.get_or_create(label);
        entry.gaps.iter().for_each(|gap| gaps.observe(gap.as_secs_f64()));
        drop(gaps);
        seconds(&self.whole, entry.arrival.elapsed());
        seconds(&self.queue, entry.queue);
        seconds(&self.prefill, entry.prefill);
        seconds(&self.decode, entry.decode);
        self.prompt_size.get_or_create(label).observe(prompt as f64);
        self.answer_size.get_or_create(label).observe(completion as f64);
    }
}

/// How requests end as they should.
const FINISHED: [&str; 3] = ["stop", "length", "tool_calls"];
/// How others do.
const CANCELLED: [&str; 5] = ["disconnect", "timeout", "slow", "drain", "error"];
/// Why requests are refused before they are queued.
const REJECTED: [&str; 6] = ["key", "origin", "body", "queue", "unavailable", "request"];

/// Why a status refuses.
fn rejection(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => "key",
        403 => "origin",
        413 => "body",
        429 | 529 => "queue",
        503 => "unavailable",
        400..=499 => "request",
        _ => return None,
    })
}
