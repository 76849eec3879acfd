//! `lamina support`: what can be run, in general and of one file.

use super::Execute;
use crate::{
    args::FetchArgs,
    error::{CliError, Result},
    exit::FAILED,
    model_path, output,
    table::{pairs, table},
};
use lamina_tools::{EncoderSupport, FamilySupport, FileSupport, TypeSupport, TypeUse, inspect, support};
use std::path::{Path, PathBuf};

/// Show which models can be run: families, formats and devices, or what of one file
///
/// With MODEL the exit code is 1 when it cannot be run. Only headers are read.
#[derive(clap::Args)]
pub struct SupportArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model; without one, all that this program knows
    model: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl Execute for SupportArgs {
    const NAME: &'static str = "support";

    fn execute(self) -> Result<()> {
        match self.model {
            Some(path) => of_file(&model_path::needed(&path, &self.fetch.options())?, self.json),
            None if self.json => output::json(&support()?.json()),
            None => output::text(&all(&support()?)),
        }
    }
}

fn of_file(path: &Path, json: bool) -> Result<()> {
    let inspection = inspect(Some(path))?;
    let found = &inspection.support;
    if json {
        let mut object = found.json();
        object["architecture"] = inspection.architecture.as_str().into();
        output::json(&object)?;
    } else {
        output::text(&report(&inspection.architecture, found))?;
    }
    // The report has said why.
    if found.problems.is_empty() { Ok(()) } else { Err(CliError::Reported(FAILED)) }
}

/// Names on a line; a model may have thousands of tensors.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{} in all: {shown}, ...", names.len()) } else { shown }
}

fn report(architecture: &str, found: &FileSupport) -> String {
    let yes = if found.problems.is_empty() { "yes" } else { "no" };
    let mut lines = vec![
        ("architecture", architecture.to_owned()),
        ("family", found.family.unwrap_or("unknown").to_owned()),
        ("supported", yes.to_owned()),
    ];
    lines.extend(found.packing.map(|name| ("packed weights", name.to_owned())));
    lines.extend(found.problems.iter().take(8).map(|problem| ("problem", problem.clone())));
    if found.problems.len() > 8 {
        lines.push(("problem", format!("and {} more", found.problems.len() - 8)));
    }
    if !found.tokenizer {
        lines.push(("tokenizer", "none: the model takes token ids only".to_owned()));
    }
    let lists =
        [("tensors that nothing uses", &found.unused), ("settings that nothing reads", &found.unread)];
    lines.extend(
        lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name, some(list))),
    );
    let row = |t: &TypeUse| {
        let kernels = match t.dtype == t.runs_as {
            true => "its own".to_owned(),
            false => format!("none: becomes {} while loading, which takes more memory", t.runs_as),
        };
        vec![t.dtype.name().to_owned(), t.matrices.to_string(), kernels]
    };
    let types = table(&["type", "matrices", "kernels"], &[1], found.types.iter().map(row));
    if found.types.is_empty() { pairs(lines) } else { format!("{}\n{types}", pairs(lines)) }
}

fn all(known: &lamina_tools::Support) -> String {
    let family = |f: &FamilySupport| {
        let gguf = match (f.gguf, f.becomes) {
            ([], Some(relative)) => format!("as {relative}"),
            ([], None) => "-".to_owned(),
            (names, _) => names.join(" "),
        };
        let runs = known.backends.iter().map(|_| "yes".to_owned());
        [f.name.to_owned(), gguf].into_iter().chain(runs).chain([f.folders.join(" ")]).collect()
    };
    let heads = |first: &[&'static str], last: &[&'static str]| -> Vec<&'static str> {
        [first, &known.backends[..], last].concat()
    };
    let dtype = |t: &TypeSupport| {
        let yes = |is: bool| if is { "yes" } else { "-" }.to_owned();
        let kernels =
            t.runs_as.iter().map(|d| if *d == t.dtype { "native".to_owned() } else { d.to_string() });
        let first =
            [t.dtype.name().to_owned(), format!("{:.4}", t.dtype.bits()), yes(t.gguf), yes(t.written)];
        first.into_iter().chain(kernels).collect()
    };
    let encoder = |e: &EncoderSupport| {
        vec![e.name.to_owned(), e.takes.to_owned(), e.mmproj.join(" "), e.folders.join(" ")]
    };
    let packing = |(name, others): &(&str, &[&str])| vec![(*name).to_owned(), others.join(" ")];
    [
        table(
            &heads(&["family", "GGUF files"], &["Hugging Face folders"]),
            &[],
            known.families.iter().map(family),
        ),
        table(
            &["encoder", "of", "mmproj files", "Hugging Face folders"],
            &[],
            known.encoders.iter().map(encoder),
        ),
        table(
            &heads(&["type of weights", "bits", "in GGUF", "can be made"], &[]),
            &[1],
            known.types.iter().map(dtype),
        ),
        table(&["packed weights of folders", "also called"], &[], known.packings.iter().map(packing)),
    ]
    .join("\n")
}
