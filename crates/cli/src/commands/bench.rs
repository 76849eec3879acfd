//! `lamina bench`: speed of a model on this machine.

use super::Execute;
use crate::{
    args::{LoadArgs, PlotArgs, pixels, positive, seconds},
    error::{CliError, Result},
    model_path, output,
    progress::spinner,
    table::{pairs, table},
};
use indicatif::DecimalBytes;
use lamina::{Profile, files::read_given, image::PixelSize};
use lamina_tools::bench::{
    self, BenchOptions, BenchPicture, BenchSound, DraftedSpeed, JobSpeed, MediaReport, Speed,
};
use std::path::{Path, PathBuf};

/// Measure the speed of a model, or of a server, with random tokens
///
/// Every combination of the lists is measured after one warm-up. The read bandwidth of the memory is measured in the
/// same run with the same threads: what decoding reaches of it says how good the speed is for this machine.
#[derive(clap::Args)]
pub struct BenchArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    pub(super) model: Option<PathBuf>,
    /// Prompt lengths, such as 128,512; 0 measures none
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "512")]
    pub(super) prompt: Vec<usize>,
    /// Tokens to decode; 0 measures none
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64")]
    pub(super) r#gen: Vec<usize>,
    /// Tokens in the cache before
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    depth: Vec<usize>,
    /// Sequences that decode at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = positive())]
    batch: Vec<usize>,
    /// Repeats of each measurement
    #[arg(long, value_name = "N", default_value = "3", value_parser = positive())]
    repeat: usize,
    /// Take prompts before decoding from this file, instead of random tokens: what look-up finds depends on it
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Measure whole jobs: all prompts and answers of each --batch, from first to last, as FlexGen does
    #[arg(long, conflicts_with = "depth")]
    throughput: bool,
    /// Measure a picture instead: its resizing, encoding and prompt, of noise of a size such as 1280x720, or of a file, whose
    /// decoding is measured too
    #[arg(long, value_name = "WxH|FILE", conflicts_with_all = ["depth", "throughput", "profile"])]
    image: Option<String>,
    /// Measure a sound instead: its spectrum, encoding and prompt, of noise of so many seconds, or of a file, whose decoding is
    /// measured too
    #[arg(long, value_name = "SECONDS|FILE", conflicts_with_all = ["depth", "throughput", "profile", "image"])]
    audio: Option<String>,
    /// Take the time of each operator, too
    #[arg(long)]
    profile: bool,
    /// Write one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    plot: PlotArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl Execute for BenchArgs {
    const NAME: &'static str = "bench";

    fn execute(self) -> Result<()> {
        let options = BenchOptions {
            prompt: self.prompt,
            gen_tokens: self.r#gen,
            depth: self.depth,
            batch: self.batch,
            repeat: self.repeat,
            throughput: self.throughput,
            profile: self.profile,
            text: self.text.as_deref().map(read).transpose()?,
        };
        let load = self.load.options();
        let path = model_path::model(self.model.as_deref(), &load)?;
        let load = model_path::parts(&load)?;
        let spinner = spinner();
        spinner.set_message("loading");
        let mut note = |what: &str| spinner.set_message(what.to_owned());
        let path = path.as_deref();
        let picture = self.image.as_deref().map(picture);
        let seen = picture.map(|of| bench::pictures(path, &load, &of, self.repeat, &mut note));
        let sound = self.audio.as_deref().map(sound);
        let heard = sound.map(|of| bench::sounds(path, &load, &of, self.repeat, &mut note));
        if let Some(measured) = seen.or(heard) {
            spinner.finish_and_clear();
            let measured = measured?;
            return match self.json {
                true => output::json(&measured.json()),
                false => output::text(&media_report(&measured)),
            };
        }
        let results = bench::run(path, &load, &options, &mut note);
        spinner.finish_and_clear();
        let results = results?;
        self.plot.write(|| crate::plots::bench(&results))?;
        match self.json {
            true => output::json(&results.json()),
            false => output::text(&report(&results)),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let failed = |source| CliError::File { action: "read", path: path.to_owned(), source };
    read_given(path).map_err(failed)
}

fn report(b: &bench::BenchReport) -> String {
    let speeds =
        b.prefill.iter().map(|s| speed("prefill", s)).chain(b.decode.iter().map(|s| speed("decode", s)));
    let heads = ["test", "tokens", "depth", "batch", "tok/s", "lowest", "highest", "predicted"];
    let mut text = conditions(b) + "\n";
    if b.jobs.is_empty() {
        text += &table(&heads, &[1, 2, 3, 4, 5, 6, 7], speeds);
    } else {
        let heads = ["batch", "prompt", "answer", "seconds", "tok/s", "prefill tok/s", "predicted"];
        text += &table(&heads, &[0, 1, 2, 3, 4, 5, 6], b.jobs.iter().map(job));
    }
    for s in &b.decode {
        text += &s.drafts.as_ref().map(|d| drafts(s, d)).unwrap_or_default();
    }
    for (kind, profile) in &b.profiles {
        text += &format!("\n{}", operators(kind, profile));
    }
    text
}

/// Noise of a size, or else a file.
fn picture(given: &str) -> BenchPicture {
    match pixels(given) {
        Ok((width, height)) => BenchPicture::Noise(PixelSize::new(width, height)),
        Err(_) => BenchPicture::File(given.into()),
    }
}

/// Noise of a length, or else a file.
fn sound(given: &str) -> BenchSound {
    seconds(given).map_or_else(|_| BenchSound::File(given.into()), BenchSound::Noise)
}

/// What a picture or a sound takes, part by part.
fn media_report(measured: &MediaReport) -> String {
    let info = &measured.info;
    let [parts, answers] = measured.times.medians();
    let all: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    let row = |name: &str, seconds: f64, share: String| {
        vec![name.to_owned(), format!("{:.2}", 1e3 * seconds), share]
    };
    let parts = parts.into_iter().map(|(name, s)| row(name, s, format!("{:.1} %", 100.0 * s / all)));
    let answers = answers.into_iter().map(|(name, s)| row(name, s, String::new()));
    let head = pairs([
        ("model", info.path.clone()),
        ("device", format!("{} ({}), {} threads", info.device, info.isa, info.threads)),
        (measured.subject.kind(), format!("{}, {} tokens", measured.subject, measured.tokens)),
    ]);
    format!("{head}\n{}", table(&["part", "ms", "share"], &[1, 2], parts.chain(answers)))
}

/// What was measured, and on what.
fn conditions(b: &bench::BenchReport) -> String {
    let info = &b.info;
    let params = info.params as f64 / 1e6;
    let share =
        b.bandwidth_share.map_or(String::new(), |s| format!("; decode uses {:.0} % of it", 100.0 * s));
    pairs([
        ("model", info.path.clone()),
        ("type", format!("{}, {}, {params:.1} M parameters", info.type_name, DecimalBytes(info.bytes))),
        (
            "device",
            format!("{} ({}), {} threads, cache {}", info.device, info.isa, info.threads, b.kv_name()),
        ),
        ("loading", format!("{:.2} s; first token after {:.2} s", b.load_s, b.first_token_s)),
        ("memory", format!("{:.1} GB/s read{share}", b.bandwidth / 1e9)),
    ])
}

/// What drafts did for a decode, beside the same without.
fn drafts(s: &Speed, d: &DraftedSpeed) -> String {
    let ratio = median(&s.tok_s) / median(&d.plain_tok_s);
    let share = 100.0 * d.accepted as f64 / d.drafted.max(1) as f64;
    format!(
        "drafts at depth {}, batch {}: {ratio:.2} times the speed without; {:.2} tokens a step; {} of {} right ({share:.0} %)\n",
        s.depth,
        s.batch,
        d.tokens_per_step(),
        d.accepted,
        d.drafted,
    )
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn speed(test: &str, s: &Speed) -> Vec<String> {
    let mut sorted = s.tok_s.clone();
    sorted.sort_by(f64::total_cmp);
    let figure = |v: Option<&f64>| v.map_or(String::new(), |v| format!("{v:.2}"));
    let counts = [s.n, s.depth, s.batch].map(|n| n.to_string());
    let figures = [sorted.get(sorted.len() / 2), sorted.first(), sorted.last()].map(figure);
    let predicted = figure(s.predicted.as_ref());
    [test.to_owned()].into_iter().chain(counts).chain(figures).chain([predicted]).collect()
}

/// A job: medians of its repeats, and what was predicted.
fn job(j: &JobSpeed) -> Vec<String> {
    let counts = [j.batch, j.prompt, j.gen_tokens].map(|n| n.to_string());
    let figures = [median(&j.seconds), median(&j.tok_s()), median(&j.prefill_tok_s())];
    let figures = figures.map(|v| format!("{v:.2}"));
    let predicted = j.predicted.map_or(String::new(), |v| format!("{v:.2}"));
    counts.into_iter().chain(figures).chain([predicted]).collect()
}

/// Where the time of one prefill or decode goes.
fn operators(kind: &str, profile: &Profile) -> String {
    let row = |(op, seconds, calls, share): (&str, f64, usize, f64)| {
        vec![
            op.to_owned(),
            format!("{:.1} %", 100.0 * share),
            format!("{:.3}", 1e3 * seconds),
            calls.to_string(),
        ]
    };
    table(
        &[&format!("{kind} by operator"), "share", "ms", "calls"],
        &[1, 2, 3],
        profile.rows().into_iter().map(row),
    )
}
