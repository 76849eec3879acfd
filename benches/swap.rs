//! A preempted request that goes on from swapped memory, against one that is computed again.
//!
//! `cargo bench --bench swap -- [MODEL] [--prompt 4096] [--kv f16] [--threads 2] [--repeat 3] [--dir DIR] [--smoke]`.
//! A request of low priority with a prompt of so many tokens decodes; a second one with a prompt of about the whole cache
//! pushes it out and ends. What is told is the time from that end to the first one's next token: computed again, read from
//! a file below DIR (which should lie on the disk to measure), and copied back from memory. The answers are compared.

use lamina::{
    GenerateOptions, KvSwap, LoadOptions, Model, Policy, Prompt, StreamOptions, SwapChoice, SwapCounts,
    Terms, TokenStream, disk::SwapBudget,
};
use lamina_fixtures::CommandLine;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
    time::Instant,
};

/// Tokens of room beside the prompt, at least: the second request is let in when its first chunk fits.
const BESIDE: usize = 640;

/// What swapped pages may take: more than enough.
const ROOM: u64 = 2 << 30;

/// A cache of exactly one sequence of a context that is at least a third longer than the prompt.
fn opened(args: &CommandLine, tokens: usize, budget: SwapBudget, folder: &Path) -> Model {
    let options = LoadOptions {
        threads: args.number("--threads"),
        kv_dtype: args.value("--kv").unwrap_or("f16").parse().expect("a cache type"),
        context: Some(tokens + BESIDE.max(tokens / 3)),
        kv_memory: Some(1),
        kv_swap: KvSwap { budget, choice: SwapChoice::Always },
        stream: StreamOptions { folder: Some(folder.into()), ..StreamOptions::default() },
        // The second prompt shall not wait for the first one's answer.
        policy: Policy { prefill_share: 0.95, ..Policy::default() },
        ..LoadOptions::default()
    };
    let plain = LoadOptions { kv_memory: None, kv_swap: KvSwap::default(), ..options.clone() };
    let one = Model::load(args.model().as_deref(), plain).expect("loads").info().kv_bytes_per_sequence;
    let options = LoadOptions { kv_memory: Some(one), ..options };
    Model::load(args.model().as_deref(), options).expect("loads")
}

/// Irregular tokens, as many.
fn prompt(model: &Model, tokens: usize, seed: u64) -> Prompt {
    let vocab = model.info().vocab as u64;
    Prompt::Tokens((0..tokens as u64).map(|i| ((i * i * 7 + i * 37 + seed) % vocab) as u32).collect())
}

fn asked(priority: i32, max_tokens: Option<usize>) -> GenerateOptions {
    let terms = Terms { priority, ..Terms::default() };
    let mut options = GenerateOptions { max_tokens, ignore_eos: true, terms, ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0).expect("a parameter");
    options
}

/// The next token and when it came; none at the end.
fn next(stream: &mut TokenStream) -> Option<(u32, Instant)> {
    stream.by_ref().find_map(|piece| Some((piece.expect("runs").token?, Instant::now())))
}

/// Seconds from the end of the request that pushed another one out to the next token of that one; its first tokens, and
/// what was swapped.
fn resumed(model: &Model, tokens: usize, seed: u64) -> (f64, Vec<u32>, SwapCounts) {
    let mut first = model.stream(&prompt(model, tokens, seed), &asked(90, None)).expect("starts");
    let mut answer = vec![next(&mut first).expect("a token").0];
    let all = model.info().context - 40;
    let second = model.stream(&prompt(model, all, seed + 1), &asked(-90, Some(2))).expect("starts");
    let ended = Arc::new(OnceLock::new());
    let tell = ended.clone();
    let reader = thread::spawn(move || {
        second.for_each(|piece| drop(piece.expect("runs")));
        tell.get_or_init(Instant::now);
    });
    let mut times = vec![];
    while let Some((token, at)) = next(&mut first) {
        answer.push(token);
        times.push(at);
        if ended.get().is_some_and(|end| at > *end) {
            break;
        }
    }
    reader.join().expect("runs");
    let end = *ended.get().expect("it has ended");
    let back = times.into_iter().find(|at| *at > end).expect("it is preempted before the end of its context");
    assert!(model.snapshot().counters.preemptions > 0, "nobody was preempted");
    ((back - end).as_secs_f64(), answer, model.snapshot().counters.swap)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let tokens = args.number("--prompt").unwrap_or(if smoke { 120 } else { 4096 });
    let repeat = args.number("--repeat").unwrap_or(if smoke { 1 } else { 3 });
    let below = args.value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(below).expect("a folder");
    let room = if smoke { 64 << 20 } else { ROOM };
    let ways = [
        ("computed_again", SwapBudget::default()),
        ("from_disk", SwapBudget { memory: 0, disk: room }),
        ("from_memory", SwapBudget { memory: room, disk: 0 }),
    ];
    let mut told = json!({ "prompt": tokens });
    let mut answers: Vec<Vec<u32>> = vec![];
    for (name, budget) in ways {
        let model = opened(&args, tokens, budget, folder.path());
        let runs: Vec<_> = (0..repeat).map(|i| resumed(&model, tokens, 100 * i as u64)).collect();
        let shared = answers.first().map_or(usize::MAX, Vec::len).min(runs[0].1.len());
        assert!(answers.first().is_none_or(|a| a[..shared] == runs[0].1[..shared]), "answers are the same");
        answers.push(runs[0].1.clone());
        told[name] = seconds(&model, runs);
    }
    for name in ["from_disk", "from_memory"] {
        let again = told["computed_again"]["seconds"].as_f64().unwrap_or(0.0);
        told[name]["times_faster"] = (again / told[name]["seconds"].as_f64().unwrap_or(f64::NAN)).into();
    }
    println!("{told:#}");
}

fn seconds(model: &Model, runs: Vec<(f64, Vec<u32>, SwapCounts)>) -> Value {
    let n = runs.len().max(1) as f64;
    let counts = runs.last().map(|run| run.2).unwrap_or_default();
    let all: Vec<f64> = runs.into_iter().map(|run| run.0).collect();
    let used = model.snapshot().swap.clone().unwrap_or_default();
    let rate = |seconds: f64| if seconds > 0.0 { json!(1e-9 / seconds) } else { Value::Null };
    json!({
        "seconds": median(all.clone()),
        "all": all,
        "kept": counts.kept,
        "lost": counts.lost,
        "bytes_out": counts.bytes_out as f64 / n,
        "bytes_in": counts.bytes_in as f64 / n,
        "copy_seconds": counts.copy_seconds / n,
        "disk_write_gb_s": rate(used.written.seconds_per_byte()),
        "disk_read_gb_s": rate(used.read.seconds_per_byte()),
    })
}
