//! Fewer key and value heads: by what is asked for, or by what a text shows to be best.

use super::trial::{Trial, perplexity};
use crate::{
    args::positive,
    error::Result,
    input,
    output::{self, note},
    progress::Bar,
    stoppable::Stoppable,
    table::table,
    write,
};
use clap::ValueEnum;
use lamina::Prompt;
use lamina_convert::{Choice, Covariances, Draft, Grouping, KvHeads, Types, WriteOptions, WriteReport};
use lamina_tools::{CalibrationOptions, Perplexity, calibrate};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How heads are pooled.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Heads")]
pub struct HeadArgs {
    /// Key and value heads to leave; each becomes the mean of several
    #[arg(long, value_name = "N", value_parser = positive())]
    kv_heads: Option<usize>,
    /// Which heads become one: neighbours, or those that are most alike
    #[arg(long, value_enum, requires = "kv_heads")]
    kv_grouping: Option<Grouped>,
    /// Turn heads towards each other first, which alone changes nothing of what the model does
    #[arg(long, requires = "kv_heads")]
    kv_align: bool,
    /// Text that shows which directions of keys and values matter; without, all count alike
    #[arg(long, value_name = "TEXT", requires = "kv_heads")]
    calibration: Option<PathBuf>,
    /// Text to measure the perplexity of each way on; the best one is taken unless one is asked for
    #[arg(long = "try", value_name = "TEXT", requires = "kv_heads", alias = "perplexity")]
    trial: Option<PathBuf>,
    /// Tokens of a window of these texts
    #[arg(short, long, value_name = "TOKENS", default_value = "512", value_parser = positive(), requires = "kv_heads")]
    context: usize,
}

/// Which heads are pooled.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grouped {
    Order,
    Similar,
}

/// How heads are pooled.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PoolingScheme {
    name: &'static str,
    grouping: Grouping,
    align: bool,
}

const SCHEMES: [PoolingScheme; 4] = [
    PoolingScheme { name: "in order", grouping: Grouping::InOrder, align: false },
    PoolingScheme { name: "similar", grouping: Grouping::Similar, align: false },
    PoolingScheme { name: "aligned", grouping: Grouping::InOrder, align: true },
    PoolingScheme { name: "similar and aligned", grouping: Grouping::Similar, align: true },
];

/// A model to convert.
pub struct HeadsJob<'a> {
    /// As it is before heads are pooled.
    pub draft: &'a Draft,
    /// Where it can be run from, if its files hold all of it.
    pub source: Option<&'a Path>,
    /// Where it goes.
    pub output: &'a Path,
    /// How it is written.
    pub options: &'a WriteOptions<'a>,
    /// Ctrl-C.
    pub stop: &'a Stoppable,
}

/// What was written, and what else there is to tell.
pub struct ConvertedHeads {
    /// Figures of the file.
    pub report: WriteReport,
    /// Further entries of the JSON object.
    pub more: Vec<(&'static str, Value)>,
}

impl HeadArgs {
    /// Writes the model, with fewer heads where that was asked for.
    pub fn convert(&self, job: &HeadsJob<'_>, json: bool) -> Result<ConvertedHeads> {
        let Some(count) = self.kv_heads else {
            let report = write::file(job.draft, job.output, job.options, job.stop)?;
            return Ok(ConvertedHeads { report, more: vec![] });
        };
        // First, so that a mistyped name does not wait for a large model.
        let text = self.trial.as_deref().map(input::file_text).transpose()?;
        let covariances = self.calibration.as_deref().map(|file| self.covariances(job, file)).transpose()?;
        let pool = |way: PoolingScheme| KvHeads {
            count,
            grouping: way.grouping,
            align: way.align,
            pool: true,
            covariances: covariances.as_ref(),
        };
        let asked = self.asked();
        let Some(text) = text else {
            let way = asked.unwrap_or(SCHEMES[0]);
            let draft = job.draft.with_kv_heads(&pool(way))?;
            let report = write::file(&draft, job.output, job.options, job.stop)?;
            let more = json!({"count": count, "chosen": way.name});
            return Ok(ConvertedHeads { report, more: vec![("kv_heads", more)] });
        };
        let tried = self.compare(job, &text, asked, &|way| Ok(job.draft.with_kv_heads(&pool(way))?))?;
        if !json {
            output::text(&tried.table())?;
        }
        Ok(ConvertedHeads { more: vec![("kv_heads", tried.json(count))], report: tried.report })
    }

    /// The way that the user wants, if any is named.
    fn asked(&self) -> Option<PoolingScheme> {
        let named = self.kv_grouping.is_some() || self.kv_align;
        let grouping = match self.kv_grouping {
            Some(Grouped::Similar) => Grouping::Similar,
            _ => Grouping::InOrder,
        };
        SCHEMES.into_iter().find(|w| named && w.grouping == grouping && w.align == self.kv_align)
    }

    /// What the attention of each layer sees on a text.
    fn covariances(&self, job: &HeadsJob<'_>, file: &Path) -> Result<Covariances> {
        let text = Prompt::Text(input::file_text(file)?);
        let merged = match job.source {
            Some(_) => None,
            None => {
                let keep = WriteOptions {
                    choice: Choice::new(Types::Keep),
                    imatrix: None,
                    max_shard_bytes: None,
                    max_shard_tensors: None,
                    ..job.options.clone()
                };
                Some(Trial::write(job.draft, job.output, &keep, job.stop)?)
            }
        };
        let model = job.source.or_else(|| merged.as_ref()?.model());
        let options = CalibrationOptions {
            context: self.context,
            threads: Some(job.options.threads),
            covariances: true,
            ..CalibrationOptions::default()
        };
        let bar = Bar::steps("calibration");
        let mut progress = |done: usize, all: usize| {
            bar.at(done as u64, all as u64);
            job.stop.goes_on()
        };
        Ok(job.stop.end(calibrate(model, &text, &options, &mut progress))?.covariances)
    }

    /// Writes the model in each way beside the output, measures it, and leaves the one that is asked for, or the best.
    fn compare(
        &self,
        job: &HeadsJob<'_>,
        text: &str,
        asked: Option<PoolingScheme>,
        pooled: &dyn Fn(PoolingScheme) -> Result<Draft>,
    ) -> Result<Tried> {
        let measure = |draft: &Draft| -> Result<(Trial, Perplexity)> {
            let trial = Trial::write(draft, job.output, job.options, job.stop)?;
            let found = perplexity(&trial, text, self.context, job.options.threads, job.stop)?;
            Ok((trial, found))
        };
        note("measuring the model as it is, and in each way to pool its heads");
        let mut measured = vec![("base", measure(job.draft)?.1)];
        let mut best: Option<(PoolingScheme, Trial, f64)> = None;
        for way in SCHEMES {
            let (trial, found) = measure(&pooled(way)?)?;
            measured.push((way.name, found));
            let better = best.as_ref().is_none_or(|(.., ppl)| found.ppl < *ppl);
            if asked.map_or(better, |a| a == way) {
                best = Some((way, trial, found.ppl));
            }
        }
        let (way, trial, _) = best.ok_or(crate::error::CliError::Reported(crate::exit::FAILED))?;
        Ok(Tried { measured, chosen: way.name, report: trial.keep(job.output)? })
    }
}

/// What was measured and chosen.
struct Tried {
    measured: Vec<(&'static str, Perplexity)>,
    chosen: &'static str,
    report: WriteReport,
}

impl Tried {
    fn table(&self) -> String {
        let row = |(name, p): &(&str, Perplexity)| {
            let mark = if *name == self.chosen { "taken" } else { "" };
            vec![(*name).to_owned(), format!("{:.4}", p.ppl), format!("{:.4}", p.stderr), mark.to_owned()]
        };
        table(&["heads", "perplexity", "+-", ""], &[1, 2], self.measured.iter().map(row)) + "\n"
    }

    fn json(&self, count: usize) -> Value {
        let one = |(name, p): &(&str, Perplexity)| json!({"name": name, "ppl": p.ppl, "stderr": p.stderr});
        let choices: Vec<_> = self.measured.iter().map(one).collect();
        json!({"count": count, "chosen": self.chosen, "choices": choices})
    }
}
