//! A prompt that is found on disk after a restart, against computing it and against reading the same files.
//!
//! `cargo bench --bench cache -- [MODEL] [--prompt 4096] [--kv f16] [--threads 2] [--repeat 3] [--dir DIR] [--smoke]`.
//! Without a model the one inside the package runs. The folder is made below DIR, which should lie on the disk to measure.
//! Files are taken out of the system's cache of files before each reading (`dd iflag=nocache`), so Linux alone is served;
//! a line of the same without that says what a restart costs while the files are still in memory.

use lamina::{GenerateOptions, LoadOptions, Model, Prompt, disk::StoreFolder};
use lamina_fixtures::CommandLine;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

fn options(args: &CommandLine, tokens: usize) -> LoadOptions {
    LoadOptions {
        threads: args.number("--threads"),
        kv_dtype: args.value("--kv").unwrap_or("f16").parse().expect("a cache type"),
        context: Some(tokens + 64),
        ..LoadOptions::default()
    }
}

/// Irregular tokens, as many.
fn prompt(model: &Model, tokens: usize) -> Vec<u32> {
    let vocab = model.info().vocab as u64;
    (0..tokens as u64).map(|i| ((i * i * 7 + i * 37 + 11) % vocab) as u32).collect()
}

/// Seconds from the request to the first token, tokens that came from disk, and the answer.
fn first_token(model: &Model, tokens: &[u32], new: usize) -> (f64, usize, Vec<u32>) {
    let mut options =
        GenerateOptions { max_tokens: Some(new), ignore_eos: true, ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0).expect("a parameter");
    let out = model.generate(&Prompt::Tokens(tokens.to_vec()), &options).expect("runs").remove(0);
    let t = out.timings;
    (t.queue_seconds + t.prefill_seconds, t.disk_tokens, out.tokens)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let list = StoreFolder::open(folder).expect("opens").list();
    list.into_iter().map(|e| e.path).collect()
}

/// Takes files out of the system's cache of files.
fn forget(files: &[PathBuf]) {
    let run = |program: &str, args: &[String]| {
        let done = Command::new(program).args(args).output().expect("runs");
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run("sync", &[]);
    for file in files {
        run("dd", &[format!("if={}", file.display()), "iflag=nocache".into(), "count=0".into()]);
    }
}

/// Seconds to read files one after the other, as a program does that only reads.
fn read(files: &[PathBuf]) -> (f64, u64) {
    let begin = Instant::now();
    let bytes = files.iter().map(|f| fs::read(f).expect("readable").len() as u64).sum();
    (begin.elapsed().as_secs_f64(), bytes)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let (tokens, repeat) = (
        args.number("--prompt").unwrap_or(if smoke { 200 } else { 4096 }),
        args.number("--repeat").unwrap_or(3),
    );
    let below = args.value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(below).expect("a folder");
    let plain = options(&args, tokens);
    let cached = LoadOptions { cache_dir: Some(folder.path().into()), ..plain.clone() };
    let open = |options: &LoadOptions| Model::load(args.model().as_deref(), options.clone()).expect("loads");
    let (computed, decode) = without(&open(&plain), tokens);
    let kept = with(open(&cached), tokens, &decode.0);
    let cold = (0..repeat).map(|_| found(&open, &cached, folder.path(), tokens, &decode.0, true)).collect();
    let warm = (0..repeat).map(|_| found(&open, &cached, folder.path(), tokens, &decode.0, false)).collect();
    let (cold, warm): (Vec<[f64; 4]>, Vec<[f64; 4]>) = (cold, warm);
    let of = |all: &[[f64; 4]], i: usize| median(all.iter().map(|one| one[i]).collect());
    let bytes = of(&cold, 2);
    println!(
        "{:#}",
        json!({
            "prompt": tokens,
            "bytes": bytes,
            "computed": { "first_token_s": computed, "decode_tok_s": decode.1 },
            "computed_and_written": kept,
            "found": seconds(&cold, of, computed),
            "found_in_the_systems_memory": seconds(&warm, of, computed),
        })
    );
}

/// What a model without a folder takes: seconds to the first token, the answer's tokens, tokens per second.
fn without(model: &Model, tokens: usize) -> (f64, (Vec<u32>, f64)) {
    let prompt = prompt(model, tokens);
    let begin = Instant::now();
    let (seconds, _, answer) = first_token(model, &prompt, 33);
    (seconds, (answer, 32.0 / (begin.elapsed().as_secs_f64() - seconds)))
}

/// The same while all goes to disk, and how long the end took.
fn with(model: Model, tokens: usize, want: &[u32]) -> Value {
    let prompt = prompt(&model, tokens);
    let begin = Instant::now();
    let (seconds, _, answer) = first_token(&model, &prompt, 33);
    let speed = 32.0 / (begin.elapsed().as_secs_f64() - seconds);
    assert_eq!(answer, want, "answers do not depend on a folder");
    let close = Instant::now();
    model.close();
    json!({ "first_token_s": seconds, "decode_tok_s": speed, "close_s": close.elapsed().as_secs_f64() })
}

/// After a restart: seconds to the first token, seconds to read the files, bytes, and seconds to the first token where all
/// is in memory.
fn found(
    open: &dyn Fn(&LoadOptions) -> Model,
    options: &LoadOptions,
    folder: &Path,
    tokens: usize,
    want: &[u32],
    cold: bool,
) -> [f64; 4] {
    let files = files(folder);
    let ready = || {
        if cold {
            forget(&files)
        }
    };
    ready();
    let (reading, bytes) = read(&files);
    let model = open(options);
    let prompt = prompt(&model, tokens);
    ready();
    let (seconds, disk, answer) = first_token(&model, &prompt, 33);
    assert_eq!(answer, want, "what is found gives the same tokens");
    assert!(disk + 2 * lamina_plan::PAGE_LEN > tokens, "{disk} tokens were found");
    // Now all of it is in memory: what is left are the last tokens, which are computed always.
    let (rest, _, _) = first_token(&model, &prompt, 33);
    [seconds, reading, bytes as f64, rest]
}

fn seconds(all: &[[f64; 4]], of: impl Fn(&[[f64; 4]], usize) -> f64, computed: f64) -> Value {
    let (first, reading, rest) = (of(all, 0), of(all, 1), of(all, 3));
    json!({
        "first_token_s": first,
        "first_token_from_memory_s": rest,
        "of_computing": first / computed,
        "reading_alone_s": reading,
        "reading_gb_s": of(all, 2) / reading / 1e9,
        "of_reading_alone": reading / (first - rest),
    })
}
