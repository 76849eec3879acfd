//! `lamina bench --server`: requests that arrive as they would from users.

use super::{ask::Ask, bench::BenchArgs};
use crate::{
    args::positive,
    error::{CliError, Result},
    input::file_text,
    output,
    progress::Bar,
    remote::{self, Arrivals, Lengths, LoadPlan, RemoteServer},
};
use clap::ValueEnum;
use lamina::Goal;
use std::path::PathBuf;

/// Requests of a measurement without a trace.
const REQUESTS: usize = 32;

/// How requests to a server arrive.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests to a server")]
pub struct TrafficArgs {
    /// How many, with lengths by chance from the lists of --prompt and --gen; the times of their tokens are measured
    /// [default: 32, or as many as the trace has]
    #[arg(long, value_name = "N", value_parser = positive(), requires = "server")]
    requests: Option<usize>,
    /// How many at once at most; without --rate each one begins when another one ends [default: 1, with --rate no limit]
    #[arg(long, value_name = "N", value_parser = positive(), requires = "server")]
    clients: Option<usize>,
    /// How many a second
    #[arg(long, value_name = "R", value_parser = rate, requires = "server")]
    rate: Option<f64>,
    /// By chance or in equal distances
    #[arg(long, value_enum, default_value_t = ArrivalPattern::Poisson, requires = "rate")]
    arrivals: ArrivalPattern,
    /// Lengths from a file with `PROMPT ANSWER [SECONDS]` on each line, or JSON with input_length, output_length and
    /// timestamp; with times and without --rate they arrive at these
    #[arg(long, value_name = "FILE", requires = "server", conflicts_with_all = ["prompt", "gen"])]
    trace: Option<PathBuf>,
    /// What counts as good, in milliseconds to the first token and between tokens, such as ttft=500,tbt=50
    #[arg(long, requires = "server")]
    goal: Option<Goal>,
    /// Makes lengths, arrivals and prompts the same again; a server may then know the prompts [default: by the clock]
    #[arg(long, value_name = "N", requires = "server")]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalPattern {
    Poisson,
    Fixed,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|r| r.is_finite() && *r > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

impl Ask for BenchArgs {
    type Flags = TrafficArgs;
    const LOCAL: &'static [&'static str] = &["depth", "batch", "repeat", "text", "throughput", "profile"];

    fn ask(self, server: RemoteServer, traffic: TrafficArgs) -> Result<()> {
        let plan = traffic.plan(&self.prompt, &self.r#gen)?;
        let model = self.model.map(|m| m.display().to_string());
        let all = plan.requests.len() as u64;
        let report = remote::runtime()?.block_on(async {
            let model = server.model(model).await?;
            let bar = Bar::steps("requests");
            remote::measure(&server, model, &plan, |done| bar.at(done as u64, all)).await
        })?;
        match self.json {
            true => output::json(&report.json(traffic.goal))?,
            false => output::text(&report.text(traffic.goal))?,
        }
        match report.failed() {
            0 => Ok(()),
            _ => Err(CliError::Server {
                url: server.url().to_owned(),
                problem: format!("{} of {all} requests failed", report.failed()),
            }),
        }
    }
}

impl TrafficArgs {
    fn plan(&self, prompt: &[usize], answer: &[usize]) -> Result<LoadPlan> {
        let lengths = match &self.trace {
            Some(file) => Lengths::read(file, &file_text(file)?)?.first(self.requests),
            None if prompt.contains(&0) || answer.contains(&0) => {
                return Err(CliError::usage("a request has at least one token: --prompt and --gen hold a 0"));
            }
            None => Lengths::Lists {
                prompt: prompt.to_vec(),
                answer: answer.to_vec(),
                requests: self.requests.unwrap_or(REQUESTS),
            },
        };
        let arrivals = match (self.rate, self.arrivals) {
            (Some(rate), ArrivalPattern::Poisson) => Arrivals::Poisson(rate),
            (Some(rate), ArrivalPattern::Fixed) => Arrivals::Fixed(rate),
            (None, _) if lengths.timed() => Arrivals::Trace,
            (None, _) => Arrivals::Closed,
        };
        let at_once = self.clients.unwrap_or(if arrivals == Arrivals::Closed { 1 } else { usize::MAX });
        Ok(LoadPlan::new(lengths, arrivals, at_once, self.seed.unwrap_or_else(|| fastrand::u64(..))))
    }
}
