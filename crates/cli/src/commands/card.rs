//! `lamina card`: what a model's page on a hub says, with figures that were measured.

use super::Execute;
use crate::{
    args::{ScoreArgs, load, positive},
    error::{CliError, Result},
    input, model_path,
    output::{self, note},
    progress::{Bar, spinner},
    write_file::write_file,
};
use indicatif::DecimalBytes;
use lamina::{LoadOptions, Model, ModelInfo, Prompt};
use lamina_tools::{
    DivergenceFigures, PerplexityOptions,
    bench::{self, BenchOptions, Speed},
    divergence, inspect, perplexity,
};
use serde_json::{Map, Value, json};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// Write a model card: the front matter of a page on a hub, and a table of sizes, perplexity, divergence and speed
///
/// Everything in the table is measured now, on this machine and on this text; the models are in memory one after the other, each
/// beside the base where one is given.
#[derive(clap::Args)]
pub struct CardArgs {
    /// GGUF files or Hugging Face folders that were made of one model
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// Model that they were made of
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,
    /// The text that is measured on; `-` reads stdin
    #[arg(short, long)]
    file: PathBuf,
    /// Tokens of a window
    #[arg(short, long, value_name = "TOKENS", default_value = "512", value_parser = positive())]
    context: usize,
    /// Title [default: what the first file calls its model]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What the hub calls the base, such as org/name [default: what the first file says]
    #[arg(long, value_name = "NAME")]
    base_name: Option<String>,
    /// Licence, such as apache-2.0 [default: what the first file says]
    #[arg(long, value_name = "NAME")]
    license: Option<String>,
    /// Measure no speeds
    #[arg(long)]
    no_speed: bool,
    /// File to write, such as README.md [default: stdout]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write one JSON object
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    load: ScoreArgs,
}

/// A row of the table.
struct CardRow {
    file: String,
    info: ModelInfo,
    ppl: (f64, f64),
    tokens: usize,
    figures: Option<DivergenceFigures>,
    /// Tokens per second of prompts and of answers.
    speeds: Option<(f64, f64)>,
}

/// Tokens of the prompt and of the answer whose speeds are measured.
const PROMPT: usize = 512;
const ANSWER: usize = 64;

impl Execute for CardArgs {
    const NAME: &'static str = "card";

    fn execute(self) -> Result<()> {
        let text = Prompt::Text(input::file_text(&self.file)?);
        let options = LoadOptions { context: Some(self.context), ..self.load.options() };
        let paths: Vec<PathBuf> =
            self.models.iter().map(|model| model_path::needed(model, &options)).collect::<Result<_>>()?;
        let base = self.base.as_deref().map(|base| load(Some(base), &options)).transpose()?;
        let rows: Vec<CardRow> =
            paths.iter().map(|path| self.row(path, base.as_ref(), &text, &options)).collect::<Result<_>>()?;
        let facts = paths.first().map(|path| inspect(Some(path))).transpose()?.map(|found| found.metadata);
        let facts = facts.unwrap_or_default();
        if self.json {
            return output::json(&json!({ "models": rows.iter().map(CardRow::json).collect::<Vec<_>>() }));
        }
        let card = format!("{}\n{}", self.head(&facts, &rows), self.body(&facts, &rows));
        match &self.output {
            None => output::text(&card),
            Some(path) => {
                write_file(path, card.as_bytes())?;
                note(&format!("written: {}", path.display()));
                Ok(())
            }
        }
    }
}

impl CardArgs {
    fn row(
        &self,
        path: &Path,
        base: Option<&Model>,
        text: &Prompt,
        options: &LoadOptions,
    ) -> Result<CardRow> {
        let model = load(Some(path), options)?;
        let windows = PerplexityOptions { context: self.context, stride: self.context, skip: 0 };
        let bar = Bar::steps("windows");
        let mut progress = |done: usize, all: usize| {
            bar.at(done as u64, all as u64);
            true
        };
        let figures = match base {
            None => None,
            Some(base) => Some(divergence(base, &model, text, windows, &mut progress)?.figures()),
        };
        let (ppl, tokens) = match &figures {
            Some(figures) => ((figures.ppl.value, figures.ppl.error), figures.tokens),
            None => {
                let found = perplexity(&model, text, windows, &mut progress)?;
                ((found.ppl, found.stderr), found.tokens)
            }
        };
        let info = model.info().clone();
        model.close();
        drop((model, bar));
        let speeds = if self.no_speed { None } else { Some(speeds(path, &self.load.options())?) };
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(CardRow { file, info, ppl, tokens, figures, speeds })
    }

    /// The front matter, in YAML: texts of JSON are texts of YAML.
    fn head(&self, facts: &Map<String, Value>, rows: &[CardRow]) -> String {
        let fact = |name: &str| facts.get(name).filter(|value| !value.is_null()).cloned();
        let given = |value: &Option<String>| value.as_ref().map(|text| json!(text));
        let gguf = rows.iter().any(|row| row.file.ends_with(".gguf"));
        let lines = [
            ("license", given(&self.license).or_else(|| fact("general.license"))),
            ("base_model", given(&self.base_name).or_else(|| fact("general.base_model.0.repo_url"))),
            ("base_model_relation", self.base.as_ref().map(|_| json!("quantized"))),
            ("language", fact("general.languages")),
            ("pipeline_tag", Some(json!("text-generation"))),
            ("library_name", gguf.then(|| json!("gguf"))),
        ];
        let mut text = "---\n".to_owned();
        for (name, value) in lines {
            value.iter().for_each(|value| _ = writeln!(text, "{name}: {value}"));
        }
        text + "---\n"
    }

    fn body(&self, facts: &Map<String, Value>, rows: &[CardRow]) -> String {
        let named = || facts.get("general.name").and_then(Value::as_str).map(str::to_owned);
        let first = rows.first().map_or(String::new(), |row| row.file.clone());
        let title = self.title.clone().or_else(named).unwrap_or_else(|| first.clone());
        let mut text = format!("# {title}\n\n{}", table(rows));
        let measured = rows.first().map_or(String::new(), |row| {
            let on = |_: &(f64, f64)| {
                let info = &row.info;
                format!(
                    " Speeds: a prompt of {PROMPT} tokens, and an answer of {ANSWER}, on {} ({}) with {} threads.",
                    info.device, info.isa, info.threads
                )
            };
            let text = self.file.file_name().unwrap_or_default().to_string_lossy();
            let windows = format!("{} tokens of `{text}` in windows of {}", row.tokens, self.context);
            format!("Measured on {windows}.{}", row.speeds.as_ref().map_or(String::new(), on))
        });
        let base = self.base.as_ref().map_or("", |_| {
            " KL is the mean divergence of the base's probabilities from the file's, in nats; same top the share of tokens that \
             both find the likeliest."
        });
        _ = writeln!(text, "\n{measured}{base} By `lamina card`, version {}.", env!("CARGO_PKG_VERSION"));
        _ = writeln!(text, "\n```sh\nlamina run {first} \"Once upon a time\"\n```");
        text
    }
}

impl CardRow {
    fn bits(&self) -> f64 {
        8.0 * self.info.bytes as f64 / self.info.params.max(1) as f64
    }

    fn json(&self) -> Value {
        json!({
            "file": self.file,
            "type": self.info.type_name,
            "bytes": self.info.bytes,
            "params": self.info.params,
            "bits_per_weight": self.bits(),
            "ppl": self.ppl.0,
            "ppl_error": self.ppl.1,
            "divergence": self.figures.as_ref().map(DivergenceFigures::json),
            "prompt_tok_s": self.speeds.map(|s| s.0),
            "answer_tok_s": self.speeds.map(|s| s.1),
        })
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            format!("`{}`", self.file.replace('|', "\\|")),
            self.info.type_name.clone(),
            DecimalBytes(self.info.bytes).to_string(),
            format!("{:.2}", self.bits()),
            format!("{:.4} ± {:.4}", self.ppl.0, self.ppl.1),
        ];
        if let Some(figures) = &self.figures {
            cells.push(format!("{:.6} ± {:.6}", figures.kl.value, figures.kl.error));
            cells.push(format!("{:.2} %", 100.0 * figures.same_top.value));
        }
        cells.extend(self.speeds.iter().flat_map(|s| [format!("{:.1}", s.0), format!("{:.1}", s.1)]));
        cells
    }
}

/// A table in Markdown.
fn table(rows: &[CardRow]) -> String {
    let mut heads = vec!["file", "type", "size", "bits per weight", "perplexity"];
    if rows.iter().any(|row| row.figures.is_some()) {
        heads.extend(["KL", "same top"]);
    }
    if rows.iter().any(|row| row.speeds.is_some()) {
        heads.extend(["prompt, tokens/s", "answer, tokens/s"]);
    }
    let lines = rows.iter().map(|row| format!("| {} |\n", row.cells().join(" | "))).collect::<String>();
    format!("| {} |\n|{}\n{lines}", heads.join(" | "), "---|".repeat(heads.len()))
}

/// Tokens per second of prompts and of answers.
fn speeds(path: &Path, options: &LoadOptions) -> Result<(f64, f64)> {
    let wanted = BenchOptions {
        prompt: vec![PROMPT],
        gen_tokens: vec![ANSWER],
        depth: vec![0],
        batch: vec![1],
        repeat: 3,
        throughput: false,
        profile: false,
        text: None,
    };
    let spinner = spinner();
    let seen = bench::run(Some(path), options, &wanted, &mut |what| spinner.set_message(what.to_owned()));
    spinner.finish_and_clear();
    let seen = seen?;
    let median = |speeds: &[Speed]| {
        let mut all = speeds.first().map(|speed| speed.tok_s.clone()).unwrap_or_default();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let nothing = || CliError::Model(lamina::Error::Runtime("nothing was measured".into()));
    median(&seen.prefill).zip(median(&seen.decode)).ok_or_else(nothing)
}
