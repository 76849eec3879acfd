//! `lamina inspect`: what a model file holds.

use super::Execute;
use crate::{
    args::{FetchArgs, PlotArgs},
    error::Result,
    model_path, output,
    table::{pairs, table},
};
use indicatif::DecimalBytes;
use lamina::DType;
use lamina_tools::{HearingInspection, Inspection, TensorInfo, VisionInspection, inspect};
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf};

/// Show what a model file holds and whether it can be run
///
/// Only headers are read, so this is quick for any size.
#[derive(clap::Args)]
pub struct InspectArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    model: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plot: PlotArgs,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl Execute for InspectArgs {
    const NAME: &'static str = "inspect";

    fn execute(self) -> Result<()> {
        let found = inspect(model_path::model(self.model.as_deref(), &self.fetch.options())?.as_deref())?;
        self.plot.write(|| crate::plots::types(&found))?;
        match self.json {
            true => output::json(&found.json()),
            false => output::text(&report(&found)),
        }
    }
}

fn report(found: &Inspection) -> String {
    let tensors = found.tensors.iter().map(|t| {
        vec![
            t.name.clone(),
            t.dtype.name().to_owned(),
            shape(&t.shape),
            DecimalBytes(t.bytes as u64).to_string(),
        ]
    });
    [
        summary(found),
        pairs(found.metadata.iter().map(|(key, value)| (key, short(value)))),
        table(&["tensor", "type", "shape", "bytes"], &[3], tensors),
        sizes(&found.tensors),
    ]
    .join("\n")
}

fn summary(found: &Inspection) -> String {
    let elements: u64 = found.tensors.iter().map(|t| t.shape.iter().product::<usize>() as u64).sum();
    let bytes: u64 = found.tensors.iter().map(|t| t.bytes as u64).sum();
    let supported = match &found.support.problems[..] {
        [] => "yes".to_owned(),
        [why] => format!("no: {why}"),
        [why, more @ ..] => format!("no: {why} (and {} more; see `lamina support`)", more.len()),
    };
    let lines = [
        ("architecture", found.architecture.clone()),
        ("supported", supported),
        ("type", found.type_name.clone()),
        ("size", format!("{} tensors, {elements} parameters, {}", found.tensors.len(), DecimalBytes(bytes))),
    ];
    let seen = found.vision.as_ref().map(|vision| ("pictures", pictures(vision)));
    let heard = found.hearing.as_ref().map(|hearing| ("sounds", sounds(hearing)));
    pairs(lines.into_iter().chain(seen).chain(heard))
}

/// What is done with pictures, on one line.
fn pictures(v: &VisionInspection) -> String {
    let (blocks, width, patch, to) = (v.blocks, v.widths.0, v.patch, v.widths.1);
    format!(
        "{} encoder, {blocks} blocks of {width}, patches of {patch} x {patch} pixels, for models whose rows have {to} numbers; \
         tokens: {}, at most {}; marker {}",
        v.family, v.token_rule, v.max_tokens, v.marker
    )
}

/// What is done with sounds, on one line.
fn sounds(h: &HearingInspection) -> String {
    format!(
        "{} encoder of sound, {} blocks of {}, for models whose rows have {} numbers; {} tokens a second; marker {}",
        h.family, h.blocks, h.widths.0, h.widths.1, h.tokens_per_second, h.marker
    )
}

/// Tensors, bytes and share of each type.
fn sizes(tensors: &[TensorInfo]) -> String {
    let mut by_type: BTreeMap<DType, (usize, u64)> = BTreeMap::new();
    for t in tensors {
        let entry = by_type.entry(t.dtype).or_default();
        *entry = (entry.0 + 1, entry.1 + t.bytes as u64);
    }
    let all: u64 = by_type.values().map(|(_, bytes)| bytes).sum();
    let mut rows: Vec<_> = by_type.into_iter().collect();
    rows.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    let row = |(dtype, (count, bytes)): (DType, (usize, u64))| {
        let share = 100.0 * bytes as f64 / all.max(1) as f64;
        vec![
            dtype.name().to_owned(),
            count.to_string(),
            DecimalBytes(bytes).to_string(),
            format!("{share:.1} %"),
        ]
    };
    table(&["type", "tensors", "bytes", "share"], &[1, 2, 3], rows.into_iter().map(row))
}

fn shape(extents: &[usize]) -> String {
    if extents.is_empty() {
        return "scalar".to_owned();
    }
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// A value on one short line: templates and vocabularies are pages long.
fn short(value: &Value) -> String {
    const WIDTH: usize = 100;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_cut_between_characters() {
        let text = short(&json!("é".repeat(150)));
        assert_eq!(text, "é".repeat(100) + "... (150 characters)");
        assert_eq!(short(&json!([1, 2])), "[1,2]");
        assert_eq!(short(&json!("plain")), "plain");
    }

    #[test]
    fn types_are_listed_by_size() {
        let tensor = |dtype, bytes| TensorInfo { name: String::new(), dtype, shape: vec![], bytes };
        let text = sizes(&[tensor(DType::F32, 100), tensor(DType::Q4_K, 200), tensor(DType::Q4_K, 100)]);
        let rows: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["Q4_K", "2", "300", "B", "75.0", "%"]);
        assert_eq!(rows[2], ["F32", "1", "100", "B", "25.0", "%"]);
    }
}
