//! `lamina batch`: a file of requests in OpenAI's batch format, and their answers in the same order.

pub(super) mod job;
mod output;
pub(super) mod request;

use super::Execute;
use crate::{
    args::{LoadArgs, positive},
    error::Result,
    model_path,
    progress::Bar,
};
use job::{BatchJob, JobLines};
use lamina::AdapterPath;
use lamina_serve::{LocalServer, ModelSettings};
use request::BatchLine;
use std::{path::PathBuf, sync::Arc, thread};

/// Answer a file of requests, as OpenAI's batches do
///
/// Each line is an object with custom_id, method (POST), url (/v1/chat/completions, /v1/completions, /v1/embeddings,
/// /v1/responses) and body. Answers come in the order of the requests, one line each, with errors in their lines. All run as
/// one batch, or with --server at a server (or its gateway), which is asked again while it is busy or away. What was cut off, by
/// Ctrl-C or otherwise, goes on with the same command.
#[derive(clap::Args)]
pub struct BatchArgs {
    /// The requests, JSON lines; `-` reads stdin
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File of the answers; what it has already is not asked again
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// GGUF file, Hugging Face folder, or name such as hf:org/model; with --server the model of all lines [default: the one
    /// that each names, or else the server's first]
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Option<PathBuf>,
    /// Low-rank adapter to use, a folder of PEFT or a GGUF adapter, at this scale [default: 1]; may be repeated
    #[arg(long, value_name = "[NAME=]PATH[@SCALE]", help_heading = "Loading")]
    lora: Vec<AdapterPath>,
    /// Requests that run at once
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive())]
    parallel: usize,
    /// Begin anew, whatever OUT has
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    load: LoadArgs,
}

impl Execute for BatchArgs {
    const NAME: &'static str = "batch";

    fn execute(self) -> Result<()> {
        self.job()?.run(|lines, workers| {
            let server = Arc::new(self.server()?);
            for _ in 0..workers {
                let (server, lines) = (server.clone(), lines.clone());
                // Not joined: after Ctrl-C they may have long answers before them, which end with the process.
                thread::Builder::new().spawn(move || work(&server, &lines))?;
            }
            Ok(|| None)
        })
    }
}

impl BatchArgs {
    /// The files that are named.
    pub(super) fn job(&self) -> Result<BatchJob> {
        BatchJob::open(&self.input, &self.output, self.parallel, self.force)
    }

    fn server(&self) -> Result<LocalServer> {
        let options = self.load.options();
        let path = model_path::model(self.model.as_deref(), &options)?;
        let load = model_path::parts(&options)?;
        let settings = ModelSettings { load, lora: self.lora.clone(), ..ModelSettings::default() };
        let bar = Bar::bytes("loading");
        let progress = |done, all| {
            bar.at(done, all);
            true
        };
        Ok(LocalServer::load(path.as_deref(), settings, &progress)?)
    }
}

fn work(server: &LocalServer, lines: &JobLines) {
    while let Some((place, line)) = lines.next() {
        // Nobody listens any more after Ctrl-C.
        if !lines.tell(place, Ok(answer(server, line))) {
            return;
        }
    }
}

fn answer(server: &LocalServer, line: &BatchLine) -> String {
    match line.asked() {
        Err(problem) => line.refused(problem, "invalid_request"),
        Ok((url, body)) => match server.post(url, body.to_string()) {
            Err(e) => line.refused(&e.to_string(), "server_error"),
            Ok(got) => line.answered(got.status, &got.body),
        },
    }
}
