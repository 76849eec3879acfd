//! Speed of a model on this machine, through the same engine that serves requests.

mod jobs;
mod json;
mod media;
mod picture;
mod predict;
mod sound;

use crate::meter::{Meter, median};
pub use jobs::JobSpeed;
use lamina::{
    Error, LoadOptions, Loaded, MemoryLimit, ModelInfo, Objective, Result, Special, Speculate, Tokenizer,
    open,
};
use lamina_engine::{
    Engine, Event, EventLog, Generation, Request, Task, Timings, TraceDetail, sample::SamplingParams,
};
use lamina_plan::{Profile, StreamCounts};
pub use media::{MediaReport, MediaSubject, MediaTimes};
pub use picture::{BenchPicture, pictures};
use predict::forecasts;
pub use sound::{BenchSound, sounds};
use std::{path::Path, sync::mpsc::channel, time::Instant};

/// What to measure. Every combination of the lists is a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// Prompt lengths.
    pub prompt: Vec<usize>,
    /// Tokens to decode.
    pub gen_tokens: Vec<usize>,
    /// Tokens in the cache before the measurement.
    pub depth: Vec<usize>,
    /// Sequences that decode at once.
    pub batch: Vec<usize>,
    /// Repeats of each measurement, after one warm-up.
    pub repeat: usize,
    /// Whole jobs are measured instead: all prompts and all answers of each batch.
    pub throughput: bool,
    /// Time of each operator is taken in one further step of each kind.
    pub profile: bool,
    /// Text whose parts are the prompts before decoding; none takes random tokens.
    pub text: Option<String>,
}

/// Speeds of one measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Tokens that were measured.
    pub n: usize,
    /// Tokens in the cache before.
    pub depth: usize,
    /// Sequences at once.
    pub batch: usize,
    /// Tokens per second over all sequences, one per repeat.
    pub tok_s: Vec<f64>,
    /// The same without drafts, taken in turn, and what drafts did; none where the model was loaded without.
    pub drafts: Option<DraftedSpeed>,
    /// Predicted tokens per second.
    pub predicted: Option<f64>,
}

/// What drafts did in a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DraftedSpeed {
    /// Tokens per second without drafts, one per repeat.
    pub plain_tok_s: Vec<f64>,
    /// Guessed tokens that were verified, those of them that were right, and all tokens that were decoded.
    pub drafted: usize,
    /// See `drafted`.
    pub accepted: usize,
    /// See `drafted`.
    pub tokens: usize,
}

impl DraftedSpeed {
    /// Tokens that a sequence got from a step.
    pub fn tokens_per_step(&self) -> f64 {
        self.tokens as f64 / (self.tokens - self.accepted.min(self.tokens - 1)).max(1) as f64
    }
}

/// All results.
pub struct BenchReport {
    /// The model, as it was loaded.
    pub info: ModelInfo,
    /// Seconds that loading took.
    pub load_s: f64,
    /// Seconds from the start of loading to the first token of the warm-up.
    pub first_token_s: f64,
    /// Prefill speeds.
    pub prefill: Vec<Speed>,
    /// Decode speeds.
    pub decode: Vec<Speed>,
    /// Jobs.
    pub jobs: Vec<JobSpeed>,
    /// Most memory that the model might take, where there was a limit.
    pub memory_budget: Option<u64>,
    /// Bytes per second that the same threads read from memory: the median of readings between measurements.
    pub bandwidth: f64,
    /// Bytes that the first single-sequence decode read per second, as a share of the bandwidth measured right after
    /// it: the median of its repeats. Models that fit the caches are above 1.
    pub bandwidth_share: Option<f64>,
    /// Largest memory of the process, without what reading the bandwidth took.
    pub peak_rss: Option<u64>,
    /// What was read from disk while the model ran.
    pub streamed: StreamCounts,
    /// Times of operators of one prefill and one decode.
    pub profiles: Vec<(&'static str, Profile)>,
}

/// Runs the benchmark; `note` is told what is measured.
///
/// # Errors
/// When the model cannot be loaded or a measurement does not fit.
pub fn run(
    path: Option<&Path>,
    load: &LoadOptions,
    options: &BenchOptions,
    note: &mut dyn FnMut(&str),
) -> Result<BenchReport> {
    let (prompt, answer) = (most(&options.prompt), most(&options.gen_tokens) + 8);
    let room = if options.throughput { prompt + answer } else { prompt.max(answer) };
    let room = most(&options.depth) + room + 64;
    let load = LoadOptions {
        context: Some(load.context.unwrap_or(room * most(&options.batch).max(1))),
        objective: if options.throughput { Objective::Throughput } else { load.objective },
        ..load.clone()
    };
    let begin = Instant::now();
    let Loaded { engine, info, tokenizer, .. } = open(path, &load, &|_, _| true)?;
    let text = text_tokens(options, tokenizer.as_ref())?;
    let load_s = begin.elapsed().as_secs_f64();
    let meter = Meter::new(load.device, info.threads)?;
    let drafts = info.draft.is_some();
    let mut lab = Lab { engine, meter, vocab: info.vocab, text, drafts, seed: 1, against: vec![] };
    lab.answers(&[lab_tokens(info.vocab, 0, 32)], 4)?;
    let first_token_s = begin.elapsed().as_secs_f64();
    let (prefill, decode) = if options.throughput { (vec![], vec![]) } else { lab.measure(options, note)? };
    let jobs = if options.throughput { lab.jobs(options, note)? } else { vec![] };
    let profiles = if options.profile { lab.profiles(options)? } else { vec![] };
    if lab.against.is_empty() {
        note("read bandwidth");
        lab.meter.read()?;
    }
    let (bandwidth, peak_rss) = (lab.meter.bandwidth(), lab.meter.peak_rss());
    let streamed = lab.engine.machine().streamed();
    let bandwidth_share = decode.iter().find(|s| s.batch == 1).and_then(|s| share(&info, s, &lab.against));
    let mut report = BenchReport {
        info,
        load_s,
        first_token_s,
        prefill,
        decode,
        jobs,
        memory_budget: load.memory.and_then(MemoryLimit::bytes),
        bandwidth,
        bandwidth_share,
        peak_rss,
        streamed,
        profiles,
    };
    // Without the model, whose memory the forecast counts, and behind the peak, which what it measures would be part of.
    drop(lab);
    report.predict(&forecasts(path, &load, options));
    Ok(report)
}

fn most(list: &[usize]) -> usize {
    list.iter().copied().max().unwrap_or(0)
}

/// An engine and a source of random tokens.
struct Lab {
    engine: Engine,
    meter: Meter,
    /// Bandwidth after each repeat of the first single-sequence decode.
    against: Vec<f64>,
    vocab: usize,
    /// Tokens that prompts are parts of; empty for random ones.
    text: Vec<u32>,
    /// The model guesses ahead: each speed is measured without, too.
    drafts: bool,
    seed: u64,
}

/// Tokens of the text that prompts are taken from.
fn text_tokens(options: &BenchOptions, tokenizer: Option<&Tokenizer>) -> Result<Vec<u32>> {
    match (&options.text, tokenizer) {
        (None, _) => Ok(vec![]),
        (Some(text), Some(tokenizer)) => Ok(tokenizer.encode(text, Special::NONE)?),
        (Some(_), None) => {
            Err(Error::InvalidRequest("this model has no tokenizer: measure it without a text".into()))
        }
    }
}

/// `n` random tokens, never the same for two seeds, so that no prefix is found by accident.
fn lab_tokens(vocab: usize, seed: u64, n: usize) -> Vec<u32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 16) as usize
    };
    (0..n).map(|_| (next() % vocab) as u32).collect()
}

/// Seed of the tokens that fill the cache before a measurement.
const BEFORE: u64 = 1 << 32;

impl Lab {
    fn tokens(&mut self, n: usize) -> Vec<u32> {
        self.seed += 1;
        lab_tokens(self.vocab, self.seed, n)
    }

    fn measure(&mut self, o: &BenchOptions, note: &mut dyn FnMut(&str)) -> Result<(Vec<Speed>, Vec<Speed>)> {
        let (mut prefill, mut decode) = (vec![], vec![]);
        for &depth in &o.depth {
            for &n in o.prompt.iter().filter(|&&n| n > 0) {
                note(&format!("prefill {n} at depth {depth}"));
                let tok_s = (0..o.repeat.max(1)).map(|_| self.prefill(n, depth)).collect::<Result<_>>()?;
                prefill.push(Speed { n, depth, batch: 1, tok_s, drafts: None, predicted: None });
            }
            for &n in o.gen_tokens.iter().filter(|&&n| n > 0) {
                for &batch in &o.batch {
                    note(&format!("decode {n} at depth {depth}, batch {batch}"));
                    let first = batch == 1 && decode.iter().all(|s: &Speed| s.batch != 1);
                    let (mut tok_s, mut drafts) = (vec![], self.drafts.then(DraftedSpeed::default));
                    for _ in 0..o.repeat.max(1) {
                        tok_s.push(self.decode(n, depth, batch, drafts.as_mut())?);
                        if first {
                            self.against.push(self.meter.read()?);
                        }
                    }
                    decode.push(Speed { n, depth, batch, tok_s, drafts, predicted: None });
                }
            }
        }
        Ok((prefill, decode))
    }

    /// Tokens per second of `n` prompt tokens after `depth` tokens that are in the cache already.
    fn prefill(&mut self, n: usize, depth: usize) -> Result<f64> {
        // The same for every repeat: it stays in the cache.
        let mut tokens = lab_tokens(self.vocab, BEFORE, depth);
        if depth > 0 {
            self.answers(&[tokens.clone()], 1)?;
        }
        tokens.extend(self.tokens(n));
        let t = self.answers(&[tokens], 1)?[0];
        Ok((t.prompt_tokens - t.cached_tokens) as f64 / t.prefill_seconds)
    }

    /// Tokens per second of `batch` sequences that decode `n` tokens each after `depth` tokens; with drafts, the same
    /// without is measured behind it.
    fn decode(
        &mut self,
        n: usize,
        depth: usize,
        batch: usize,
        drafts: Option<&mut DraftedSpeed>,
    ) -> Result<f64> {
        let prompts: Vec<_> = (0..batch).map(|i| self.prompt(i, depth)).collect();
        for prompt in &prompts {
            self.answers(std::slice::from_ref(prompt), 1)?;
        }
        // The first token belongs to the prompt.
        let speed = |times: &[Timings]| {
            (batch * n) as f64 / times.iter().map(|t| t.decode_seconds).fold(0.0, f64::max)
        };
        let times = self.answers(&prompts, n + 1)?;
        if let Some(drafts) = drafts {
            drafts.tokens += batch * n;
            drafts.drafted += times.iter().map(|t| t.speculation.drafted).sum::<usize>();
            drafts.accepted += times.iter().map(|t| t.speculation.accepted).sum::<usize>();
            drafts.plain_tok_s.push(speed(&self.drafted_answers(&prompts, n + 1, Speculate::off())?));
        }
        Ok(speed(&times))
    }

    /// A prompt of `depth + 8` tokens: of the text, each time another part, or of random tokens of which the last 8 are new.
    fn prompt(&mut self, i: usize, depth: usize) -> Vec<u32> {
        if self.text.is_empty() {
            let mut prompt = lab_tokens(self.vocab, BEFORE + i as u64, depth);
            prompt.extend(self.tokens(8));
            return prompt;
        }
        self.seed += 1;
        let start = self.seed as usize * 7919 % self.text.len();
        self.text.iter().copied().cycle().skip(start).take(depth + 8).collect()
    }

    /// Greedy answers of `n` tokens to all prompts at once, drafted as the model was loaded.
    fn answers(&mut self, prompts: &[Vec<u32>], n: usize) -> Result<Vec<Timings>> {
        self.drafted_answers(prompts, n, Speculate::default())
    }

    fn drafted_answers(
        &mut self,
        prompts: &[Vec<u32>],
        n: usize,
        speculate: Speculate,
    ) -> Result<Vec<Timings>> {
        let mut params = SamplingParams::default();
        params.set("temperature", 0.0)?;
        let receivers: Vec<_> = prompts
            .iter()
            .map(|prompt| {
                let (events, receiver) = channel();
                let (params, speculate) = (params.clone(), speculate.clone());
                let generation =
                    Generation { max_tokens: Some(n), params, speculate, ..Generation::default() };
                let task = Task::Generate(Box::new(generation));
                self.engine.add(Request::new(prompt.clone(), task, Box::new(events)));
                receiver
            })
            .collect();
        while !self.engine.idle() {
            self.engine.step();
        }
        let last = |r: std::sync::mpsc::Receiver<Event>| match r.iter().last() {
            Some(Event::Finished { timings, .. }) => Ok(timings),
            Some(Event::Failed(e)) => Err(e.into()),
            _ => Err(Error::Runtime("a measurement ended without a result".into())),
        };
        receivers.into_iter().map(last).collect()
    }

    /// Times of operators of one prefill and one decode of the first sizes asked for.
    fn profiles(&mut self, o: &BenchOptions) -> Result<Vec<(&'static str, Profile)>> {
        let first = |list: &[usize], or: usize| list.first().copied().filter(|&n| n > 0).unwrap_or(or);
        let (n, depth) = (first(&o.prompt, 512), first(&o.depth, 0));
        let prompt = self.tokens(depth + n);
        let profile = |log: Option<EventLog>| log.map(|log| log.profile()).unwrap_or_default();
        self.engine.record(Some(TraceDetail::Ops));
        self.answers(std::slice::from_ref(&prompt), 1)?;
        let prefill = profile(self.engine.record(Some(TraceDetail::Ops)));
        self.answers(&[prompt], 32)?;
        let decode = profile(self.engine.record(None));
        Ok(vec![("prefill", prefill), ("decode", decode)])
    }
}

/// Share of the bandwidth that a decode used: weights, and the cache at its middle.
fn share(info: &ModelInfo, speed: &Speed, against: &[f64]) -> Option<f64> {
    let kv = info.kv_bytes_per_token * (speed.depth + 8 + speed.n / 2) as f64;
    let shares = speed
        .tok_s
        .iter()
        .zip(against)
        .map(|(t, bandwidth)| (info.bytes_per_token as f64 + kv) * t / bandwidth);
    median(&shares.collect::<Vec<_>>())
}
