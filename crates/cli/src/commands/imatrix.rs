//! `lamina imatrix`: which weights of a model matter on a text.

use super::Execute;
use crate::{
    args::{FetchArgs, OutputArgs, PlotArgs, positive},
    error::Result,
    input, model_path, output,
    plots::by_layer,
    progress::Bar,
    stoppable::Stoppable,
    table::pairs,
};
use lamina::Prompt;
use lamina_convert::{Imatrix, Sums};
use lamina_see::plot::{Plot, PlotForm};
use lamina_tools::{CalibrationOptions, calibrate};
use serde_json::json;
use std::{path::PathBuf, time::Instant};

/// Find out which weights of a model matter, for the quantizer
///
/// The model reads the text in windows; for each column of each matrix the mean square of what it is multiplied with is
/// kept. The file is one that llama.cpp reads, too.
#[derive(clap::Args)]
pub struct ImatrixArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model, best unquantized
    model: Option<PathBuf>,
    /// The text; `-` reads stdin
    #[arg(short, long)]
    file: PathBuf,
    /// GGUF file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Windows at most [default: all of the text]
    #[arg(long, value_name = "N", value_parser = positive())]
    chunks: Option<usize>,
    /// Tokens of a window
    #[arg(short, long, value_name = "TOKENS", default_value = "512", value_parser = positive(), alias = "ctx-size")]
    context: usize,
    /// Also the output matrix, which quantizers keep finer anyway
    #[arg(long)]
    process_output: bool,
    /// Threads [default: physical cores]
    #[arg(short, long, value_name = "N", value_parser = positive())]
    threads: Option<usize>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plot: PlotArgs,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    replace: OutputArgs,
}

impl Execute for ImatrixArgs {
    const NAME: &'static str = "imatrix";

    fn execute(self) -> Result<()> {
        self.replace.check(&self.output)?;
        let text = input::file_text(&self.file)?;
        let path = model_path::model(self.model.as_deref(), &self.fetch.options())?;
        let options = CalibrationOptions {
            context: self.context,
            windows: self.chunks,
            threads: self.threads,
            output: self.process_output,
            covariances: false,
            dataset: self.file.display().to_string(),
        };
        let (start, stop, bar) = (Instant::now(), Stoppable::new(), Bar::steps("windows"));
        let mut progress = |done: usize, all: usize| {
            bar.at(done as u64, all as u64);
            stop.goes_on()
        };
        let seen = calibrate(path.as_deref(), &Prompt::Text(text), &options, &mut progress);
        let matrix = stop.end(seen)?.imatrix;
        drop(bar);
        matrix.write(&self.output)?;
        self.plot.write(|| importance(&matrix, &options.dataset))?;
        let (seconds, file) = (start.elapsed().as_secs_f64(), self.output.display().to_string());
        if self.json {
            return output::json(&json!({
                "file": file,
                "entries": matrix.sums.len(),
                "chunks": matrix.chunks,
                "chunk_size": matrix.chunk_size,
                "seconds": seconds,
            }));
        }
        output::text(&pairs([
            ("file", file),
            ("matrices", matrix.sums.len().to_string()),
            ("text", format!("{} windows of {} tokens in {seconds:.2} s", matrix.chunks, matrix.chunk_size)),
        ]))
    }
}

/// How large the inputs of matrices are, by layer: the mean square, as part of the largest of the same matrix elsewhere.
fn importance(matrix: &Imatrix, text: &str) -> Plot {
    let mean = |sums: &Sums| {
        let (count, width) = (sums.counts.iter().sum::<f32>(), sums.values.len() / sums.counts.len().max(1));
        f64::from(sums.values.iter().sum::<f32>()) / f64::from(count.max(1.0)) / width.max(1) as f64
    };
    let means = matrix.sums.iter().map(|(name, sums)| (name.as_str(), Some(mean(sums))));
    let (rows, columns, mut values) = by_layer(means, None);
    for row in &mut values {
        let most = row.iter().flatten().copied().fold(0.0, f64::max);
        row.iter_mut().flatten().for_each(|value| *value /= most.max(f64::MIN_POSITIVE));
    }
    Plot {
        title: "Inputs of matrices".into(),
        conditions: format!(
            "{text}, {} windows of {} tokens; mean square, as part of the largest in its row",
            matrix.chunks, matrix.chunk_size
        ),
        form: PlotForm::Heat { rows, columns, values },
    }
}
