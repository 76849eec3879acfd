//! `lamina serve`: answers over HTTP.

use super::Execute;
use crate::{
    args::{SamplingArgs, ServeFlags},
    error::{CliError, Result},
    input,
    interrupt::{self, On},
    model_path,
    output::note,
    parent::Parent,
};
use lamina_serve::{
    JoinedReplica, ModelOrigin, NamedPath, ReplicaPlace, ReplicaRole, ServeOptions, Server, StartError,
    serve_replica,
};
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// Answer over HTTP, for clients of OpenAI, Anthropic, llama-server and Ollama
///
/// Programs written for any of them work with the base URL that the start says. SIGTERM and Ctrl-C end in good order:
/// what runs goes on for --drain-timeout. SIGHUP reads keys and certificates again.
#[derive(clap::Args)]
#[command(override_usage = "lamina serve [OPTIONS] [[NAME=]MODEL]...")]
pub struct ServeArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model, and what requests call it
    #[arg(value_name = "[NAME=]MODEL", value_parser = named)]
    models: Vec<NamedPath>,
    /// File of options and models, in TOML; what the command line says wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the address, and nothing else, to standard output once requests are answered: for the program that starts this
    /// one, with --port 0
    #[arg(long)]
    print_url: bool,
    /// End in good order when standard input is closed, as it is when the program that started this one has ended
    #[arg(long)]
    exit_with_parent: bool,
    /// Join the gateways that were started with --replicas-join at these addresses, as one of their replicas, in the place of
    /// listening for clients. LAMINA_APP_KEY is the key of all; LAMINA_REPLICA_HOST is the host, or HOST:PORT, at which
    /// gateways reach this process [default: where its connections come from]
    #[arg(long, value_name = "HOST:PORT,..", env = "LAMINA_GATEWAY", value_delimiter = ',',
        conflicts_with_all = ["replicas", "replicas_join"])]
    gateway: Vec<String>,
    /// What this replica is there for: mixed (prompts and answers), or prefill (prompts: their answers go on in the other replicas,
    /// which find what was computed in the --cache-dir that all share)
    #[arg(long, value_name = "ROLE", default_value = "mixed", requires = "gateway")]
    role: ReplicaRole,
    #[command(flatten)]
    options: ServeFlags,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// A model with its name; any text is one.
fn named(text: &str) -> std::result::Result<NamedPath, String> {
    text.parse().map_err(|()| "a path is missing".to_owned())
}

/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

impl Execute for ServeArgs {
    const NAME: &'static str = "serve";

    fn execute(self) -> Result<()> {
        let mut options = ServeOptions { sampling: self.sampling.params, ..ServeOptions::default() };
        if let Some(path) = &self.config {
            let folder = path.parent().unwrap_or(Path::new("."));
            let wrong = |problem| CliError::Content { path: path.clone(), problem };
            options.read(&input::file_text(path)?, folder).map_err(wrong)?;
        }
        options.models.extend(self.models.into_iter().map(ModelOrigin::from));
        self.options.set(&mut options).map_err(|e| CliError::Start(e.to_string()))?;
        model_path::fetching(|line| options.locate(line))?;
        if let Some(place) = ReplicaPlace::of_environment() {
            return Ok(serve_replica(options, &place)?);
        }
        if !self.gateway.is_empty() {
            return join(options, &self.gateway, self.role, self.exit_with_parent);
        }
        // As it was called: what an environment of Python's calls python is a link that knows its packages.
        options.replica_command = std::env::args_os().collect();
        // From now on Ctrl-C ends in good order, also while the model loads.
        interrupt::set(On::Catch);
        let server = Server::start(options)?;
        server.end_on_signals()?;
        note(&format!("listening on {}", server.url()));
        server.join_address().iter().for_each(|at| note(&format!("replicas join at {at}")));
        server.notes().iter().for_each(|n| note(n));
        let mut end = End { interrupted: false, parent: self.exit_with_parent.then(Parent::watch) };
        let ready = server.ready(|| !end.drains(&server));
        if let Err(why) = ready {
            server.abort();
            return Err(CliError::Model(lamina::Error::Runtime(why)));
        }
        if !end.interrupted {
            server.models().iter().for_each(|name| note(&format!("ready: {name}")));
            if self.print_url {
                let mut out = std::io::stdout();
                writeln!(out, "{}", server.url()).and_then(|()| out.flush())?;
            }
        }
        while !server.wait_within(PATIENCE) {
            end.drains(&server);
        }
        interrupt::set(On::Exit);
        Ok(())
    }
}

/// Answers the requests of gateways. Signals end the process at once: its answers go on in the other replicas.
fn join(options: ServeOptions, gateways: &[String], role: ReplicaRole, exit_with_parent: bool) -> Result<()> {
    let host = std::env::var("LAMINA_REPLICA_HOST").ok().filter(|host| !host.is_empty());
    let parent = exit_with_parent.then(Parent::watch);
    let orphan = || parent.as_ref().is_some_and(Parent::gone);
    let replica = JoinedReplica::start(options, gateways, host.as_deref(), role, || !orphan())?;
    replica.models().iter().for_each(|name| note(&format!("ready: {name}")));
    while !orphan() {
        if let Some(over) = replica.wait_within(PATIENCE) {
            return Ok(over?);
        }
    }
    Ok(())
}

/// What ends a server beside signals.
struct End {
    interrupted: bool,
    parent: Option<Parent>,
}

impl End {
    /// Looks for Ctrl-C and for the end of the parent: the first drains the server, a second Ctrl-C ends the program.
    fn drains(&mut self, server: &Server) -> bool {
        let orphan = self.parent.as_ref().is_some_and(Parent::gone);
        if (interrupt::hit() || orphan) && !std::mem::replace(&mut self.interrupted, true) {
            note(if orphan {
                "ending: standard input was closed"
            } else {
                "ending; press Ctrl-C again to end at once"
            });
            server.drain();
            interrupt::set(On::Exit);
        }
        self.interrupted
    }
}

impl From<StartError> for CliError {
    fn from(e: StartError) -> Self {
        match e {
            StartError::Model(e) => CliError::Model(e),
            e => CliError::Start(e.to_string()),
        }
    }
}
