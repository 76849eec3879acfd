//! `lamina plan`: what a model will take, and how fast it will be.

use super::Execute;
use crate::{
    args::{LoadArgs, PlotArgs, pixels, positive, seconds},
    error::{CliError, Result},
    exit::FAILED,
    model_path, output,
    plots::{self, SpeedCurves},
    progress::spinner,
};
use lamina::{Forecast, ForecastQuestion, LinkChoice, LoadOptions, MemoryLimit};
use lamina_tools::{plan_json, plan_report};
use std::path::{Path, PathBuf};

/// Tell what a model will take of memory and disk, and how fast it will be, before it is loaded
///
/// Only headers are read. Speeds are predicted from those of this machine, which are measured once and kept for a month;
/// that of the disk is measured now. The exit code is 1 when the model does not fit, here or as stages or shards on the machines
/// that are asked about.
#[derive(clap::Args)]
pub struct PlanArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    model: Option<PathBuf>,
    /// Sequences that decode at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,32", value_parser = positive())]
    batch: Vec<usize>,
    /// Prompt lengths; decoding is told behind the first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "512", value_parser = positive())]
    prompt: Vec<usize>,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive())]
    r#gen: usize,
    /// A picture, such as 1280x720: what it takes of a prompt and of memory
    #[arg(long, value_name = "WxH", value_parser = pixels)]
    image: Option<(u32, u32)>,
    /// A sound of so many seconds: what it takes of a prompt and of memory
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    audio: Option<f64>,
    /// Numbers of machines like this one: what they make of it as stages, as shards (tensor parallel), and as replicas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive())]
    machines: Vec<usize>,
    #[arg(long, value_name = "LINK", default_value = "10GbE", requires = "machines",
          help = format!("What lies between them: {}", LinkChoice::forms()))]
    link: LinkChoice,
    /// Measure the speeds of this machine anew
    #[arg(long)]
    measure: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plot: PlotArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl Execute for PlanArgs {
    const NAME: &'static str = "plan";

    fn execute(self) -> Result<()> {
        let PlanArgs { batch, prompt, measure, image, audio, machines, .. } = self;
        let link = self.link.link()?;
        let question = ForecastQuestion {
            batch,
            prompt,
            gen_tokens: self.r#gen,
            measure,
            image,
            audio,
            machines,
            link,
            ..ForecastQuestion::default()
        };
        let options = self.load.options();
        let path = model_path::model(self.model.as_deref(), &options)?;
        let options = model_path::parts(&options)?;
        let spinner = spinner();
        spinner.set_message("measuring this machine");
        let forecast = lamina::plan(path.as_deref(), &options, &question);
        spinner.finish_and_clear();
        let forecast = forecast?;
        self.plot.write(|| {
            let asked = AskedForecast { path: path.as_deref(), options: &options, question: &question };
            let speeds = SpeedCurves {
                memory: asked.by_memory(&forecast),
                context: asked.by_context(&forecast),
                batch: asked.by_batch(),
            };
            plots::plan(&forecast, path.as_deref(), &speeds)
        })?;
        match self.json {
            true => output::json(&plan_json(&forecast))?,
            false => output::text(&plan_report(&forecast))?,
        }
        let fits = forecast.problem.is_none()
            || forecast.machines.iter().any(|several| several.stages.is_ok() || several.shards.is_ok());
        // The report has said why.
        if fits { Ok(()) } else { Err(CliError::Reported(FAILED)) }
    }
}

/// Parts of the memory that all of it takes, for which speeds are foretold.
const MEMORY_PARTS: u64 = 12;
/// Parts of the context, likewise.
const CONTEXT_PARTS: usize = 8;
/// Answers at once, likewise.
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What was asked about, for curves of the same with other terms.
struct AskedForecast<'a> {
    path: Option<&'a Path>,
    options: &'a LoadOptions,
    question: &'a ForecastQuestion,
}

impl AskedForecast<'_> {
    /// The forecast of other terms; none where the model does not fit then.
    fn foretell(&self, options: &LoadOptions, batch: Vec<usize>, prompt: Option<usize>) -> Option<Forecast> {
        let prompt = prompt.map_or_else(|| self.question.prompt.clone(), |tokens| vec![tokens]);
        let question = ForecastQuestion {
            batch,
            prompt,
            measure: false,
            advice: false,
            machines: vec![],
            ..self.question.clone()
        };
        lamina::plan(self.path, options, &question).ok().filter(|f| f.problem.is_none())
    }

    /// How fast one answer is with how much memory, up to what all of it takes; without those where it does not fit.
    fn by_memory(&self, forecast: &Forecast) -> Vec<(u64, f64)> {
        let taken: u64 = forecast.memory.iter().map(|part| part.bytes).sum();
        // What is read from disk now would be in memory, too.
        let all = taken.max(forecast.weights + taken / 4);
        let one = |part: u64| {
            let bytes = all / MEMORY_PARTS * part;
            let options = LoadOptions { memory: Some(MemoryLimit::Bytes(bytes)), ..self.options.clone() };
            Some((bytes, self.foretell(&options, vec![1], None)?.decode.first()?.tok_s))
        };
        // Beyond all of it, so that the end of the rise is seen.
        (1..=MEMORY_PARTS + 2).filter_map(one).collect()
    }

    /// How fast one answer is behind how many tokens, up to what the context has room for.
    fn by_context(&self, forecast: &Forecast) -> Vec<(u64, f64)> {
        let room = forecast.context.saturating_sub(self.question.gen_tokens);
        let one = |part: usize| {
            let tokens = (room * part / CONTEXT_PARTS).max(1);
            Some((tokens as u64, self.foretell(self.options, vec![1], Some(tokens))?.decode.first()?.tok_s))
        };
        (0..=CONTEXT_PARTS).filter_map(one).collect()
    }

    /// How fast answers are together, as far as the cache holds them.
    fn by_batch(&self) -> Vec<(u64, f64)> {
        let Some(forecast) = self.foretell(self.options, BATCHES.to_vec(), None) else { return vec![] };
        let held = forecast.decode.iter().filter(|speed| speed.running == speed.batch);
        held.map(|speed| (speed.batch as u64, speed.tok_s)).collect()
    }
}
