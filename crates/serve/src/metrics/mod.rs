//! Numbers for dashboards, under vLLM's names where they mean the same. Reading them never waits for a step.

mod kept;
mod labels;
mod process;
mod seen;
mod swapped;

use crate::{
    log::LogEntry,
    models::{ModelSlot, Phase},
};
use kept::KeptHistogram;
use labels::{
    AdapterLabel, BuildLabel, EndLabel, ModelLabel, PagesLabel, PhaseLabel, StatusLabel, StepLabel,
    TenantLabel, WhyLabel,
};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry as Sheet,
};
use seen::SeenCounters;
use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};
use swapped::SwapMetrics;

type Gauges<L> = Family<L, Gauge<f64, AtomicU64>>;
type Seconds<L> = Family<L, Counter<f64, AtomicU64>>;
/// Histograms of engines.
type Kept<L> = Family<L, KeptHistogram, fn() -> KeptHistogram>;
type Histograms = Family<ModelLabel, Histogram, fn() -> Histogram>;

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

/// The numbers of a server.
pub struct Metrics {
    sheet: Sheet,
    requests: Requests,
    engines: Engines,
    open_connections: Gauge,
    resident: Gauge,
    cpu: Gauge<f64, AtomicU64>,
    files: Gauge,
    /// Lines of the log that were dropped.
    pub log_dropped: Counter,
    seen: Mutex<SeenCounters>,
}

/// Numbers that requests bring when they end.
struct Requests {
    prompt_tokens: Family<ModelLabel, Counter>,
    generation_tokens: Family<ModelLabel, Counter>,
    success: Family<EndLabel, Counter>,
    answered: Family<StatusLabel, Counter>,
    cancelled: Family<WhyLabel, Counter>,
    rejected: Family<WhyLabel, Counter>,
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

/// Numbers that engines have at any time.
struct Engines {
    running: Gauges<ModelLabel>,
    waiting: Gauges<ModelLabel>,
    swapped: Gauges<ModelLabel>,
    cache_usage: Gauges<ModelLabel>,
    pages: Gauges<PagesLabel>,
    state: Gauges<PhaseLabel>,
    step_age: Gauges<ModelLabel>,
    loras: Gauges<AdapterLabel>,
    preemptions: Family<ModelLabel, Counter>,
    swaps: SwapMetrics,
    cache_queries: Family<ModelLabel, Counter>,
    cache_hits: Family<ModelLabel, Counter>,
    disk_hits: Family<ModelLabel, Counter>,
    drafted: Family<ModelLabel, Counter>,
    accepted: Family<ModelLabel, Counter>,
    steps: Family<ModelLabel, Counter>,
    step_seconds: Kept<StepLabel>,
    step_rows: Kept<ModelLabel>,
}

/// Adds families to a sheet, under its prefix.
struct Registrar<'a> {
    sheet: &'a mut Sheet,
    prefix: &'a str,
}

impl Registrar<'_> {
    fn add<M: prometheus_client::registry::Metric + Clone>(&mut self, name: &str, doc: &str, metric: M) -> M {
        self.sheet.register(format!("{}:{name}", self.prefix), doc, metric.clone());
        metric
    }

    fn counter<L>(&mut self, name: &str, doc: &str) -> Family<L, Counter>
    where
        Family<L, Counter>: prometheus_client::registry::Metric + Default + Clone,
    {
        self.add(name, doc, Family::default())
    }

    fn gauge<L>(&mut self, name: &str, doc: &str) -> Gauges<L>
    where
        Gauges<L>: prometheus_client::registry::Metric + Default + Clone,
    {
        self.add(name, doc, Family::default())
    }

    fn histogram(&mut self, name: &str, doc: &str, new: fn() -> Histogram) -> Histograms {
        self.add(name, doc, Family::new_with_constructor(new))
    }
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

impl Metrics {
    /// Numbers whose names begin with `prefix`.
    pub fn new(prefix: &str) -> Metrics {
        let mut sheet = Sheet::default();
        let mut r = Registrar { sheet: &mut sheet, prefix };
        let requests = Requests::new(&mut r);
        let engines = Engines::new(&mut r);
        let open_connections = r.add("open_connections", "Connections that are open", Gauge::default());
        let log_dropped =
            r.add("log_lines_dropped", "Lines of the log that nobody read in time", Counter::default());
        let build: Family<BuildLabel, Gauge> =
            r.add("build_info", "Version of the server", Family::default());
        build.get_or_create(&BuildLabel { version: env!("CARGO_PKG_VERSION").into() }).set(1);
        let mut plain = |name: &str, doc: &str| {
            let gauge: Gauge = Gauge::default();
            sheet.register(name, doc, gauge.clone());
            gauge
        };
        let resident = plain("process_resident_memory_bytes", "Resident memory");
        let files = plain("process_open_fds", "Open file descriptors");
        let cpu = Gauge::<f64, AtomicU64>::default();
        sheet.register("process_cpu_seconds_total", "Processor time of user and system", cpu.clone());
        let seen = Mutex::new(SeenCounters::default());
        Metrics { sheet, requests, engines, open_connections, resident, cpu, files, log_dropped, seen }
    }

    /// Counts a request that has ended: once, whatever its `n`.
    pub fn finish(&self, entry: &LogEntry) {
        self.requests.finish(entry);
    }

    /// The numbers as text.
    pub fn text(&self, slots: &[Arc<ModelSlot>], connections: usize) -> String {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        slots.iter().for_each(|slot| self.engines.read(slot, &mut seen));
        self.open_connections.set(connections as i64);
        self.resident.set(process::resident_bytes() as i64);
        self.files.set(process::open_files() as i64);
        self.cpu.set(process::cpu_seconds());
        let mut text = String::new();
        // Writing into a string does not fail.
        _ = encode(&mut text, &self.sheet);
        text
    }
}

impl Requests {
    fn new(r: &mut Registrar<'_>) -> Requests {
        Requests {
            prompt_tokens: r.counter("prompt_tokens", "Tokens of prompts, cached ones too"),
            generation_tokens: r.counter("generation_tokens", "Tokens of answers"),
            success: r.counter("request_success", "Requests that ended as they should"),
            answered: r.counter("requests", "Responses"),
            cancelled: r.counter("requests_cancelled", "Requests that did not end as they should"),
            rejected: r.counter("rejected", "Requests that were refused before they were queued"),
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

    fn finish(&self, entry: &LogEntry) {
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
            Some(reason @ ("stop" | "length" | "tool_calls")) => {
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
        self.prompt_tokens.get_or_create(label).inc_by(entry.usage.prompt as u64);
        self.generation_tokens.get_or_create(label).inc_by(entry.usage.completion as u64);
        entry.first_token.iter().for_each(|t| seconds(&self.first_token, *t));
        let gaps = self.between_tokens.get_or_create(label);
        entry.gaps.iter().for_each(|gap| gaps.observe(gap.as_secs_f64()));
        drop(gaps);
        seconds(&self.whole, entry.arrival.elapsed());
        seconds(&self.queue, entry.queue);
        seconds(&self.prefill, entry.prefill);
        seconds(&self.decode, entry.decode);
        self.prompt_size.get_or_create(label).observe(entry.usage.prompt as f64);
        self.answer_size.get_or_create(label).observe(entry.usage.completion as f64);
    }
}

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

impl Engines {
    fn new(r: &mut Registrar<'_>) -> Engines {
        Engines {
            running: r.gauge("num_requests_running", "Sequences that run"),
            waiting: r.gauge("num_requests_waiting", "Sequences that wait"),
            swapped: r.gauge(
                "num_requests_swapped",
                "Sequences that are paused for their readers, or whose memory is swapped",
            ),
            cache_usage: r
                .gauge("kv_cache_usage_perc", "Part of the cache's pages that sequences hold, 0 to 1"),
            pages: r.gauge("kv_pages", "Pages of the cache"),
            state: r.gauge("model_state", "1 for the state that the model is in"),
            step_age: r.gauge("step_age_seconds", "Time since the last step while there is work"),
            loras: r.gauge("lora_requests_info", "1 for each adapter"),
            preemptions: r.counter("num_preemptions", "Sequences that lost their memory to others"),
            swaps: SwapMetrics::new(r),
            cache_queries: r.counter("prefix_cache_queries", "Tokens of prompts that were looked for"),
            cache_hits: r.counter("prefix_cache_hits", "Tokens of prompts that were found"),
            disk_hits: r.counter("prefix_cache_disk_hits", "Of these, tokens that were read from disk"),
            drafted: r.counter("spec_decode_num_draft_tokens", "Guessed tokens that were verified"),
            accepted: r.counter("spec_decode_num_accepted_tokens", "Guessed tokens that answers have"),
            steps: r.counter("steps", "Steps that computed rows"),
            step_seconds: r.add(
                "step_seconds",
                "Time of a step",
                Family::new_with_constructor(KeptHistogram::of_seconds),
            ),
            step_rows: r.add(
                "iteration_tokens",
                "Rows of a step",
                Family::new_with_constructor(KeptHistogram::of_rows),
            ),
        }
    }

    fn read(&self, slot: &ModelSlot, seen: &mut SeenCounters) {
        let label = ModelLabel { model_name: slot.name.clone() };
        let now = slot.phase();
        for name in Phase::NAMES {
            let phase = PhaseLabel { model_name: slot.name.clone(), state: name.into() };
            self.state.get_or_create(&phase).set(f64::from(now.name() == name));
        }
        for adapter in slot.adapters() {
            let one = AdapterLabel { model_name: slot.name.clone(), lora_name: adapter.into() };
            self.loras.get_or_create(&one).set(1.0);
        }
        let Some(live) = slot.live() else { return };
        let snapshot = live.model.snapshot();
        let set = |family: &Gauges<ModelLabel>, n: f64| _ = family.get_or_create(&label).set(n);
        set(&self.running, snapshot.running.len() as f64);
        set(&self.waiting, snapshot.waiting.len() as f64);
        let away = snapshot.waiting.iter().filter(|s| s.swapped).count();
        set(&self.swapped, (away + snapshot.running.iter().filter(|s| s.paused || s.swapped).count()) as f64);
        let held = snapshot.pages.saturating_sub(snapshot.free_pages);
        let cached = snapshot.cached_pages.min(snapshot.free_pages);
        set(&self.cache_usage, held as f64 / snapshot.pages.max(1) as f64);
        for (state, n) in [("held", held), ("cached", cached), ("free", snapshot.free_pages - cached)] {
            let pages = PagesLabel { model_name: slot.name.clone(), state: state.into() };
            self.pages.get_or_create(&pages).set(n as f64);
        }
        let busy = snapshot.running.iter().any(|s| !s.paused);
        let age = snapshot.last_step.filter(|_| busy).map_or(0.0, |s| s.ended.elapsed().as_secs_f64());
        set(&self.step_age, age);
        let more = seen.since(&slot.name, snapshot.counters);
        self.preemptions.get_or_create(&label).inc_by(more.preemptions);
        self.swaps.read(&slot.name, more.swap, snapshot.swap.as_ref());
        self.cache_queries.get_or_create(&label).inc_by(more.prompt_tokens);
        self.cache_hits.get_or_create(&label).inc_by(more.cached_tokens);
        self.disk_hits.get_or_create(&label).inc_by(more.disk_tokens);
        self.drafted.get_or_create(&label).inc_by(more.drafted);
        self.accepted.get_or_create(&label).inc_by(more.accepted);
        self.steps.get_or_create(&label).inc_by(more.steps);
        self.step_rows.get_or_create(&label).add(&more.tallies.rows);
        let tallies = more.tallies;
        for (kind, tally) in
            [("decode", tallies.decode), ("prompt", tallies.prompt), ("mixed", tallies.mixed)]
        {
            let label = StepLabel { model_name: slot.name.clone(), kind: kind.into() };
            self.step_seconds.get_or_create(&label).add(&tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RequestLog;

    #[test]
    fn a_request_counts_once() {
        let metrics = Metrics::new("lamina");
        let log = RequestLog::new("r".into(), "p".into(), "POST", "/v1/completions");
        {
            let mut entry = log.entry();
            (entry.status, entry.queued, entry.finish) = (200, true, Some("stop"));
            entry.model = Some("m".into());
            entry.usage.prompt = 7;
            entry.first_token = Some(Duration::from_millis(3));
            metrics.finish(&entry);
        }
        let text = metrics.text(&[], 2);
        for line in [
            "lamina:prompt_tokens_total{model_name=\"m\"} 7",
            "lamina:request_success_total{model_name=\"m\",finished_reason=\"stop\"} 1",
            "lamina:requests_total{dialect=\"openai\",status=\"200\"} 1",
            "lamina:time_to_first_token_seconds_bucket{le=\"0.005\",model_name=\"m\"} 1",
            "lamina:open_connections 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
