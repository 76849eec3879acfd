//! `lamina quantize`: a model in smaller types.

mod budget;

use super::Execute;
use crate::{
    args::{FetchArgs, OutputArgs, SplitArgs, TypeArgs},
    error::Result,
    input, model_path,
    output::{self, note},
    progress::Bar,
    stoppable::Stoppable,
    table::{pairs, table},
    write,
};
use indicatif::DecimalBytes;
use lamina::{LoadOptions, Model, Prompt};
use lamina_convert::{Choice, Draft, MIXES, Mix, Types};
use lamina_tools::{Divergence, PerplexityOptions, divergence};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Write a model in smaller types
///
/// Types below about three bits per weight need an importance matrix (`lamina imatrix`), which makes the others better,
/// too. Rows that are no whole blocks of a type get one of smaller blocks. An mmproj file is quantized alone, to Q8_0; to
/// smaller types only with --force.
#[derive(clap::Args)]
pub struct QuantizeArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    #[arg(value_name = "IN", required_unless_present = "list")]
    input: Option<PathBuf>,
    /// GGUF file to write
    #[arg(value_name = "OUT", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Type or mix, such as Q4_K_M; keep changes overridden tensors only
    #[arg(value_name = "TYPE", required_unless_present_any = ["list", "budget_kl"])]
    types: Option<Types>,
    /// Text to compare both models on, in the figures of `lamina perplexity --base`
    #[arg(long, value_name = "TEXT", conflicts_with = "list")]
    measure: Option<PathBuf>,
    /// Choose the type of each tensor so that the mean KL divergence on the text of --measure stays below this, with as small a
    /// file as is found: each group of tensors is probed, and the choice measured until it fits
    #[arg(
        long,
        value_name = "KL",
        requires = "measure",
        conflicts_with_all = ["types", "overrides", "output_type", "embedding_type", "pure"]
    )]
    budget_kl: Option<f64>,
    /// List the types; with IN, what each would make of that model
    #[arg(long)]
    list: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    replace: OutputArgs,
    #[command(flatten)]
    choice: TypeArgs,
    #[command(flatten)]
    split: SplitArgs,
}

impl Execute for QuantizeArgs {
    const NAME: &'static str = "quantize";

    fn execute(self) -> Result<()> {
        let fetch = self.fetch.options();
        let input = self.input.as_deref().map(|input| model_path::needed(input, &fetch)).transpose()?;
        match (&input, &self.output, self.types, self.budget_kl) {
            (Some(input), Some(output), None, Some(kl)) if !self.list => self.spend(input, output, kl),
            (Some(input), Some(output), Some(types), _) if !self.list => self.quantize(input, output, types),
            (input, ..) => self.list(input.as_deref()),
        }
    }
}

impl QuantizeArgs {
    fn quantize(&self, input: &Path, output: &Path, types: Types) -> Result<()> {
        self.replace.check(output)?;
        // First, so that a mistyped name does not wait for a large model.
        let text = self.measure.as_deref().map(input::file_text).transpose()?.map(Prompt::Text);
        let imatrix = self.choice.imatrix()?;
        let draft = Draft::open(input)?;
        let quantizes = matches!(types, Types::Mix(mix) if mix.dtype.is_quantized());
        if let Some(coarse) = draft.tensors.iter().find(|t| quantizes && t.dtype.is_quantized()) {
            let dtype = coarse.dtype;
            note(&format!(
                "note: the model is quantized already ({dtype}); a file of 16-bit floats gives better ones"
            ));
        }
        let choice = Choice { coarse_encoders: self.replace.force, ..self.choice.choice(types) };
        let options = write::options(choice, imatrix.as_ref(), self.choice.threads(), &self.split);
        let stop = Stoppable::new();
        let report = write::file(&draft, output, &options, &stop)?;
        let Some(text) = text else { return write::report(&report, self.json, &[]) };
        let written = report.files.first().map_or(output, |f| f.as_path());
        let figures = measured(input, written, &text, options.threads, &stop)?.figures();
        write::report(&report, self.json, &[("divergence", figures.json())])?;
        match self.json {
            true => Ok(()),
            false => output::text(&format!("\n{}", pairs(figures.rows()))),
        }
    }

    fn list(&self, input: Option<&Path>) -> Result<()> {
        let draft = input.map(Draft::open).transpose()?;
        let listed = |mix| Choice { coarse_encoders: true, ..self.choice.choice(Types::Mix(mix)) };
        let one = |mix: &'static Mix| -> Result<(&'static Mix, Option<u64>)> {
            let bytes = draft.as_ref().map(|d| d.bytes_as(&listed(mix))).transpose()?;
            Ok((mix, bytes))
        };
        let all = MIXES.iter().map(one).collect::<Result<Vec<_>>>()?;
        let params = draft.as_ref().map_or(1, Draft::params).max(1);
        match self.json {
            true => output::json(&json!({ "types": objects(&all, params) })),
            false => output::text(&rows(&all, params)),
        }
    }
}

/// How far the model at `path` is from the one at `base`.
fn measured(base: &Path, path: &Path, text: &Prompt, threads: usize, stop: &Stoppable) -> Result<Divergence> {
    let (base, bar) = (loaded(base, threads, stop)?, Bar::steps("windows"));
    compared(&base, path, text, threads, stop, &mut |done, all| bar.at(done as u64, all as u64))
}

fn loaded(path: &Path, threads: usize, stop: &Stoppable) -> Result<Model> {
    let context = Some(PerplexityOptions::default().context);
    let options = LoadOptions { context, threads: Some(threads), ..LoadOptions::default() };
    stop.end(Model::load_with(Some(path), &options, &|_, _| stop.goes_on()))
}

/// The same of a base in memory; `progress` is told windows done and in all.
fn compared(
    base: &Model,
    path: &Path,
    text: &Prompt,
    threads: usize,
    stop: &Stoppable,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Divergence> {
    let model = loaded(path, threads, stop)?;
    stop.end(divergence(base, &model, text, PerplexityOptions::default(), &mut |done, all| {
        progress(done, all);
        stop.goes_on()
    }))
}

fn bits(bytes: u64, params: u64) -> f64 {
    8.0 * bytes as f64 / params as f64
}

fn objects(all: &[(&Mix, Option<u64>)], params: u64) -> Vec<Value> {
    let one = |(mix, bytes): &(&Mix, Option<u64>)| {
        let mut object = json!({"name": mix.name, "main": mix.dtype.name(), "main_bits": mix.dtype.bits()});
        if let Some(bytes) = bytes {
            object["bytes"] = json!(bytes);
            object["bits_per_weight"] = json!(bits(*bytes, params));
        }
        object
    };
    all.iter().map(one).collect()
}

fn rows(all: &[(&Mix, Option<u64>)], params: u64) -> String {
    let of_model = all.iter().any(|(_, bytes)| bytes.is_some());
    let heads = ["type", "most weights", "bits of those", "bits per weight", "size"];
    let row = |(mix, bytes): &(&Mix, Option<u64>)| {
        let main = [mix.name.to_owned(), mix.dtype.name().to_owned(), format!("{:.4}", mix.dtype.bits())];
        let model = bytes.map(|b| [format!("{:.2}", bits(b, params)), DecimalBytes(b).to_string()]);
        main.into_iter().chain(model.into_iter().flatten()).collect()
    };
    table(&heads[..if of_model { 5 } else { 3 }], &[2, 3, 4], all.iter().map(row))
}
