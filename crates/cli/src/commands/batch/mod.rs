//! `lamina batch`: a file of requests in OpenAI's batch format, and their answers in the same order.

mod output;
mod request;

use super::Execute;
use crate::{
    args::{LoadArgs, positive},
    error::{CliError, Result},
    input,
    interrupt::{self, On},
    model_path,
    output::note,
    progress::Bar,
};
use lamina::AdapterPath;
use lamina_serve::{LocalServer, ModelSettings};
use output::BatchOutput;
use request::{BatchLine, Taken, lines};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

/// Answer a file of requests, as OpenAI's batches do
///
/// Each line is an object with custom_id, method (POST), url (/v1/chat/completions, /v1/completions, /v1/embeddings,
/// /v1/responses) and body. Answers come in the order of the requests, one line each, with errors in their lines. All run as
/// one batch. What was cut off, by Ctrl-C or otherwise, goes on with the same command.
#[derive(clap::Args)]
pub struct BatchArgs {
    /// The requests, JSON lines; `-` reads stdin
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File of the answers; what it has already is not asked again
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    #[arg(short, long, value_name = "MODEL")]
    model: Option<PathBuf>,
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

/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

impl Execute for BatchArgs {
    const NAME: &'static str = "batch";

    fn execute(self) -> Result<()> {
        let all = lines(&input::file_text(&self.input)?);
        let mut out = BatchOutput::open(&self.output, &all, self.force)?;
        let done = out.written();
        if done > 0 {
            note(&format!("{done} of {} are answered already", all.len()));
        }
        if done < all.len() {
            let server = self.server()?;
            interrupt::set(On::Catch);
            let answered = answer_all(server, &all[done..], self.parallel, &mut out);
            interrupt::set(On::Exit);
            answered?;
        }
        let (good, refused) = out.counts();
        note(&format!("{good} answered, {refused} refused: {}", self.output.display()));
        Ok(())
    }
}

impl BatchArgs {
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

/// Answers with their places among the lines.
type Answers = Sender<(usize, String)>;

/// Runs requests side by side, and writes their answers in order as soon as those before them are there.
fn answer_all(
    server: LocalServer,
    asked: &[BatchLine],
    parallel: usize,
    out: &mut BatchOutput,
) -> Result<()> {
    let (total, first) = (asked.len() + out.written(), out.written());
    let jobs = Arc::new(Taken::new(asked.to_vec()));
    let (server, (send, receive)) = (Arc::new(server), mpsc::channel());
    for _ in 0..parallel.min(asked.len()) {
        let (server, jobs, send) = (server.clone(), jobs.clone(), send.clone());
        // Not joined: after Ctrl-C they may have long answers before them, which end with the process.
        thread::Builder::new().spawn(move || work(&server, &jobs, &send)).map_err(CliError::Output)?;
    }
    drop(send);
    let (bar, mut early) = (Bar::steps("requests"), BTreeMap::new());
    bar.at(first as u64, total as u64);
    while out.written() < total {
        match receive.recv_timeout(PATIENCE) {
            Ok((place, line)) => drop(early.insert(first + place, line)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let text = "a fault inside Lamina, please report it: a request has ended without an answer";
                return Err(lamina::Error::Runtime(text.into()).into());
            }
        }
        while let Some(line) = early.remove(&out.written()) {
            out.write(&line)?;
            bar.at(out.written() as u64, total as u64);
        }
        if interrupt::hit() {
            drop(bar);
            note(&format!("{} of {total} are written: the same command goes on from there", out.written()));
            return Err(CliError::Reported(interrupt::CODE));
        }
    }
    Ok(())
}

fn work(server: &LocalServer, jobs: &Taken, answers: &Answers) {
    while let Some((place, line)) = jobs.next() {
        // Nobody listens any more after Ctrl-C.
        if answers.send((place, line.answer(server))).is_err() {
            return;
        }
    }
}
