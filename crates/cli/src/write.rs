//! Writes model files with a bar, and reports on them.

use crate::{
    args::SplitArgs,
    error::Result,
    output::{self, note},
    progress::Bar,
    stoppable::Stoppable,
    table::{pairs, table},
};
use indicatif::DecimalBytes;
use lamina_convert::{Choice, Draft, Imatrix, WriteOptions, WriteReport};
use serde_json::{Value, json};
use std::path::Path;

/// How a file is written: `choice` on so many threads into one file, or into several.
pub fn options<'a>(
    choice: Choice,
    imatrix: Option<&'a Imatrix>,
    threads: usize,
    split: &SplitArgs,
) -> WriteOptions<'a> {
    WriteOptions {
        choice,
        imatrix,
        threads,
        max_shard_bytes: split.split_max_size,
        max_shard_tensors: split.split_max_tensors,
    }
}

/// Writes `draft` to `path`; Ctrl-C gives up.
pub fn file(draft: &Draft, path: &Path, options: &WriteOptions<'_>, stop: &Stoppable) -> Result<WriteReport> {
    let bar = Bar::bytes("writing");
    let progress = |done, all| {
        bar.at(done, all);
        stop.goes_on()
    };
    stop.end(draft.write(path, options, &progress))
}

/// Reports what was written: notes on stderr, figures on stdout, `more` in the JSON object.
pub fn report(report: &WriteReport, as_json: bool, more: &[(&str, Value)]) -> Result<()> {
    report.notes.iter().for_each(|n| note(&format!("note: {n}")));
    if !as_json {
        return output::text(&figures(report));
    }
    let mut object = object(report);
    more.iter().for_each(|(key, value)| object[*key] = value.clone());
    output::json(&object)
}

fn object(report: &WriteReport) -> Value {
    let types = report
        .types
        .iter()
        .map(|(name, (tensors, bytes))| ((*name).to_owned(), json!({"tensors": tensors, "bytes": bytes})));
    json!({
        "files": report.files,
        "type": report.mix,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "params": report.params,
        "bits_per_weight": report.bits_per_weight(),
        "seconds": report.seconds,
        "gb_s": report.gb_per_second(),
        "types": Value::Object(types.collect()),
        "notes": report.notes,
    })
}

fn figures(report: &WriteReport) -> String {
    let files = match &report.files[..] {
        [one] => one.display().to_string(),
        [first, .., _] => format!("{} and {} more", first.display(), report.files.len() - 1),
        [] => "none".to_owned(),
    };
    let (before, after) = (DecimalBytes(report.bytes_in), DecimalBytes(report.bytes_out));
    let row = |(name, (tensors, bytes)): (&&str, &(usize, u64))| {
        vec![(*name).to_owned(), tensors.to_string(), DecimalBytes(*bytes).to_string()]
    };
    let types = table(&["type", "tensors", "bytes"], &[1, 2], report.types.iter().map(row));
    let lines = pairs([
        ("file", files),
        ("type", report.mix.unwrap_or("as before").to_owned()),
        ("size", format!("{before} to {after}, {:.2} bits per weight", report.bits_per_weight())),
        ("time", format!("{:.2} s, {:.2} GB/s", report.seconds, report.gb_per_second())),
    ]);
    format!("{lines}\n{types}")
}
