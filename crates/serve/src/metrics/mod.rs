//! Numbers for dashboards, under vLLM's names where they mean the same. Reading them never waits for a step.

#[cfg(test)]
mod dashboard;
mod encoders;
mod kept;
mod labels;
mod moves;
mod process;
mod registrar;
mod requests;
mod seen;
mod spans;
mod swapped;
mod text;

pub use process::resident_bytes;
pub use requests::TokenCounters;
pub use spans::SpanMetrics;
pub use text::MetricsFormat;

use crate::{
    log::LogEntry,
    models::{ModelSlot, Phase},
};
use encoders::EncoderMetrics;
use kept::KeptHistogram;
use labels::{AdapterLabel, BuildLabel, ModelLabel, PagesLabel, PhaseLabel, PhaseSecondsLabel, StepLabel};
use moves::MoveMetrics;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry as Sheet,
};
use registrar::{Gauges, Registrar, Seconds};
use requests::Requests;
use seen::SeenCounters;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use swapped::SwapMetrics;

/// Histograms of engines.
type Kept<L> = Family<L, KeptHistogram, fn() -> KeptHistogram>;

/// The numbers of a server.
pub struct Metrics {
    sheet: Sheet,
    requests: Requests,
    engines: Engines,
    open_connections: Gauge,
    resident: Gauge,
    cpu: Counter<f64, AtomicU64>,
    files: Gauge,
    /// Lines of the log that were dropped.
    pub log_dropped: Counter,
    /// What becomes of answers where there are replicas.
    pub moves: MoveMetrics,
    /// What becomes of spans.
    pub spans: SpanMetrics,
    seen: Mutex<SeenCounters>,
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
    encoders: EncoderMetrics,
    drafted: Family<ModelLabel, Counter>,
    accepted: Family<ModelLabel, Counter>,
    steps: Family<ModelLabel, Counter>,
    phases: Seconds<PhaseSecondsLabel>,
    step_seconds: Kept<StepLabel>,
    step_rows: Kept<ModelLabel>,
}

impl Metrics {
    /// Numbers whose names begin with `prefix`: those of a gateway where there are `replicas`.
    pub fn new(prefix: &str, replicas: bool) -> Metrics {
        let mut sheet = Sheet::default();
        let mut r = Registrar { sheet: &mut sheet, prefix };
        let requests = Requests::new(&mut r);
        let engines = Engines::new(&mut r);
        let moves = MoveMetrics::new(replicas.then_some(&mut r));
        let spans = SpanMetrics::new(&mut r);
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
        let cpu = Counter::<f64, AtomicU64>::default();
        sheet.register("process_cpu_seconds", "Processor time of user and system", cpu.clone());
        let seen = Mutex::new(SeenCounters::default());
        Metrics {
            sheet,
            requests,
            engines,
            open_connections,
            resident,
            cpu,
            files,
            log_dropped,
            moves,
            spans,
            seen,
        }
    }

    /// Counts a request that has ended: once, whatever its `n`.
    pub fn finish(&self, entry: &LogEntry) {
        self.requests.finish(entry);
    }

    /// Where tokens of a model's requests are counted while they come.
    pub fn tokens(&self, model: &str) -> TokenCounters {
        self.requests.tokens(model)
    }

    /// Tokens of prompts and of answers so far of the models and adapters with these names.
    pub fn token_counts<'a>(&self, names: impl Iterator<Item = &'a str>) -> (u64, u64) {
        let both = names.map(|name| self.requests.tokens(name));
        both.fold((0, 0), |(prompt, generated), counters| {
            (prompt + counters.prompt.get(), generated + counters.generated.get())
        })
    }

    /// The numbers as text.
    pub fn text(&self, slots: &[Arc<ModelSlot>], connections: usize) -> String {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in slots {
            let names = std::iter::once(slot.name.as_str()).chain(slot.adapters());
            names.for_each(|name| self.requests.begin(name));
            self.engines.read(slot, &mut seen);
        }
        self.open_connections.set(connections as i64);
        self.resident.set(process::resident_bytes() as i64);
        self.files.set(process::open_files() as i64);
        // Time of a process never goes back, and what is written is not read by anybody else.
        self.cpu.inner().store(process::cpu_seconds().to_bits(), Ordering::Relaxed);
        let mut text = String::new();
        // Writing into a string does not fail.
        _ = encode(&mut text, &self.sheet);
        text
    }
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
            encoders: EncoderMetrics::new(r),
            drafted: r.counter("spec_decode_num_draft_tokens", "Guessed tokens that were verified"),
            accepted: r.counter("spec_decode_num_accepted_tokens", "Guessed tokens that answers have"),
            steps: r.counter("steps", "Steps that computed rows"),
            phases: r.add(
                "step_phase_seconds",
                "Time of the phases of steps, where they are recorded",
                Family::default(),
            ),
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
        self.encoders.read(&slot.name, &live.model, seen);
        self.drafted.get_or_create(&label).inc_by(more.drafted);
        self.accepted.get_or_create(&label).inc_by(more.accepted);
        self.steps.get_or_create(&label).inc_by(more.steps);
        self.step_rows.get_or_create(&label).add(&more.tallies.rows);
        for (phase, seconds) in more.phases.named() {
            let label = PhaseSecondsLabel { model_name: slot.name.clone(), phase: phase.into() };
            self.phases.get_or_create(&label).inc_by(seconds);
        }
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
    use std::time::Duration;

    /// Every counter, as it is before the first request.
    #[test]
    fn counters_are_there_from_the_start() {
        let options = crate::options::ServeOptions::default();
        let models = crate::models::Registry::new(&options).expect("the packaged model");
        let metrics = Metrics::new("lamina", false);
        let text = metrics.text(&models.slots(), 0);
        for line in [
            "lamina:prompt_tokens_total{model_name=\"lamina-tiny\"} 0",
            "lamina:generation_tokens_total{model_name=\"lamina-tiny\"} 0",
            "lamina:images_total{model_name=\"lamina-tiny\"} 0",
            "lamina:image_tokens_total{model_name=\"lamina-tiny\"} 0",
            "lamina:audio_tokens_total{model_name=\"lamina-tiny\"} 0",
            "lamina:encode_seconds_total{model_name=\"lamina-tiny\"} 0",
            "lamina:request_success_total{model_name=\"lamina-tiny\",finished_reason=\"stop\"} 0",
            "lamina:requests_cancelled_total{why=\"disconnect\"} 0",
            "lamina:rejected_total{why=\"queue\"} 0",
            "lamina:requests_total{dialect=\"anthropic\",status=\"200\"} 0",
            "lamina:time_to_first_token_seconds_count{model_name=\"lamina-tiny\"} 0",
            "# TYPE process_cpu_seconds counter",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let cpu =
            text.lines().find_map(|l| l.strip_prefix("process_cpu_seconds_total ")?.parse::<f64>().ok());
        assert!(cpu.is_some_and(|seconds| seconds >= 0.0), "{text}");
    }

    #[test]
    fn a_request_counts_once() {
        let metrics = Metrics::new("lamina", false);
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
