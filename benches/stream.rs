//! Decoding with weights that are read from disk: bytes per second in decode, against what the disk gives right after.
//!
//! `cargo bench --bench stream -- MODEL.gguf [PERCENT ..]` keeps so many percent of the weights that can be streamed in
//! memory (default 10, 50 and 90), for 1 and 8 requests at once. Disks drift within seconds: every figure is held against
//! the reading next to it.

use lamina::{GenerateOptions, LoadOptions, Model, Prompt, StreamInfo, StreamOptions};
use lamina_disk::read_rate;
use lamina_fixtures::CommandLine;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Tokens of each answer.
const TOKENS: usize = 16;
/// How often each figure is taken.
const REPEATS: usize = 3;
/// Threads that read, as in decoding.
const THREADS: usize = 2;
/// How long the disk is read between repeats.
const READING: Duration = Duration::from_millis(1500);

fn main() {
    let args = CommandLine::of_process();
    let Some((path, percents)) = args.words().split_first() else {
        println!("usage: cargo bench --bench stream -- MODEL.gguf [PERCENT ..]");
        return;
    };
    let percents: Vec<u64> = percents.iter().filter_map(|p| p.parse().ok()).collect();
    let percents = if percents.is_empty() { vec![10, 50, 90] } else { percents };
    let all = load(Path::new(path), Some(0));
    let bytes = all.info().stream.as_ref().map_or(0, |s| s.streamed_bytes);
    drop(all);
    println!("resident  batch   tok/s  waiting  decode GB/s  disk GB/s  share");
    for percent in percents {
        let model = load(Path::new(path), Some(bytes / 100 * percent));
        for batch in [1, 8] {
            (0..REPEATS).for_each(|_| repeat(&model, percent, batch));
        }
    }
    // Everything in memory, for comparison.
    let model = load(Path::new(path), None);
    for batch in [1, 8] {
        let (seconds, ..) = decode(&model, batch);
        println!("     all {batch:6} {:7.2}", (batch * (TOKENS - 1)) as f64 / seconds);
    }
}

fn load(path: &Path, resident: Option<u64>) -> Model {
    let stream = StreamOptions { resident, ..StreamOptions::default() };
    let options =
        LoadOptions { context: Some(1024), reuse_prefixes: false, stream, ..LoadOptions::default() };
    Model::load(Some(path), options).unwrap_or_else(|e| panic!("{e}"))
}

fn repeat(model: &Model, percent: u64, batch: usize) {
    let info = model.info().stream.as_ref().expect("weights are streamed");
    let (seconds, waited) = decode(model, batch);
    let steps = (TOKENS - 1) as f64;
    let rate = info.streamed_bytes as f64 * steps / seconds / 1e9;
    let disk = disk_rate(info) / 1e9;
    let tokens = batch as f64 * steps / seconds;
    println!(
        "{percent:7}% {batch:6} {tokens:7.2} {:7.0}% {rate:12.2} {disk:10.2} {:6.2}",
        100.0 * waited / seconds,
        rate / disk
    );
}

/// Seconds from the first to the last token of answers at once, and how many of these waited for the disk.
fn decode(model: &Model, batch: usize) -> (f64, f64) {
    let mut options =
        GenerateOptions { max_tokens: Some(TOKENS), ignore_eos: true, ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0).expect("known");
    let prompt = |i: usize| Prompt::Text(format!("Number {i}"));
    let streams: Vec<_> = (0..batch).map(|i| model.stream(&prompt(i), &options).expect("starts")).collect();
    let ends = streams.into_iter().map(|stream| {
        let mut got = lamina::Completion::empty();
        stream.for_each(|piece| got.push(piece.expect("runs")));
        (got.timings.decode_seconds, got.timings.io_wait_seconds)
    });
    ends.fold((0.0, 0.0), |a, b| (b.0.max(a.0), b.1.max(a.1)))
}

/// Bytes per second that the panel files give now, read as decoding reads them.
fn disk_rate(info: &StreamInfo) -> f64 {
    let mut files =
        std::fs::read_dir(&info.folder).expect("the folder of panels").flatten().map(|f| f.path());
    let path: PathBuf = files.find(|p| p.extension().is_some_and(|e| e == "panels")).expect("panels");
    read_rate(&path, THREADS, READING).expect("reads").expect("a file of more than one read")
}
