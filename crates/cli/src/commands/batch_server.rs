//! `lamina batch --server`: requests are sent to a server, and again while it is busy or away.

use super::{
    ask::Ask,
    batch::{
        BatchArgs,
        job::JobLines,
        request::{BatchLine, fresh},
    },
};
use crate::{
    error::{CliError, Result},
    remote::{self, RemoteServer, ServerAnswer},
};
use lamina_serve::Span;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

/// Statuses of servers that may answer later: they wait for the request, have too many, start, or end.
const LATER: [u16; 5] = [408, 429, 502, 503, 504];
/// The status that all further requests would get as well: the key is wrong.
const DENIED: u16 = 401;
/// From one attempt to the next: twice as long each time, between these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What is done about a server that does not answer.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct PatienceArgs {
    /// How long a request is kept and sent again while the server is busy or cannot be reached: the sum of its pauses
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = span, requires = "server")]
    patience: Span,
}

fn span(text: &str) -> std::result::Result<Span, &'static str> {
    text.parse().map_err(|()| "must be a time, such as 30s, 5m or 1h")
}

impl Ask for BatchArgs {
    type Flags = PatienceArgs;
    const LOCAL: &'static [&'static str] = &["lora"];

    fn ask(self, server: RemoteServer, flags: PatienceArgs) -> Result<()> {
        let job = self.job()?;
        let always = self.model.as_ref().map(|name| name.display().to_string());
        job.run(|lines, workers| {
            let runtime = remote::runtime()?;
            // A wrong address or key is told now, and not after all patience.
            let first = runtime.block_on(server.model(None))?;
            let patience = flags.patience.0;
            let past = Arc::new(Mutex::new(ServerPast::default()));
            let asked = ServerJob { server, always, first, patience, lines, past: past.clone() };
            // Not joined, as on this machine: what a server still computes ends with the connection.
            thread::Builder::new().spawn(move || runtime.block_on(asked.run(workers)))?;
            Ok(move || seen(&past).complaint.take())
        })
    }
}

/// Lines on their way to a server.
struct ServerJob {
    server: RemoteServer,
    /// The model of all lines.
    always: Option<String>,
    /// The model of lines that name none.
    first: Option<String>,
    patience: Duration,
    lines: JobLines,
    past: Arc<Mutex<ServerPast>>,
}

/// When a server last did what.
#[derive(Default)]
struct ServerPast {
    answered: Option<Instant>,
    /// Somebody complained that it does not.
    complained: Option<Instant>,
    /// In words, until a person was told.
    complaint: Option<String>,
}

fn seen(past: &Mutex<ServerPast>) -> MutexGuard<'_, ServerPast> {
    past.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of one attempt.
enum SendAttempt {
    Answered(String),
    /// `line` is the answer where it stays so.
    Failed {
        line: String,
        why: CliError,
        pause: Option<Duration>,
    },
}

impl ServerJob {
    async fn run(self, workers: usize) {
        let (job, mut tasks) = (Arc::new(self), JoinSet::new());
        for _ in 0..workers {
            tasks.spawn(job.clone().work());
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn work(self: Arc<Self>) {
        while let Some((place, line)) = self.lines.next() {
            if !self.lines.tell(place, self.answer(line).await) {
                return;
            }
        }
    }

    /// The answer to `line`, in as many attempts as patience allows.
    async fn answer(&self, line: &BatchLine) -> Result<String> {
        let (url, body) = match line.asked() {
            Ok((url, body)) => (url, self.with_model(body)),
            Err(problem) => return Ok(line.refused(problem, "invalid_request")),
        };
        // A gateway draws the same for the same key: what is asked twice is answered equally.
        let key = fresh("key");
        let (mut pauses, mut waited, mut failing) = (PAUSES.0, Duration::ZERO, None);
        loop {
            let (answer, why, pause) = match self.attempt(line, url, &body, &key).await? {
                SendAttempt::Answered(answer) => return Ok(answer),
                SendAttempt::Failed { line, why, pause } => (line, why, pause),
            };
            let since = *failing.get_or_insert_with(Instant::now);
            if waited >= self.patience {
                return if self.is_alone(since, &why).await { Ok(answer) } else { Err(why) };
            }
            self.complain(since, &why);
            // Not all at the same moment, and none before the server wants it.
            let pause = pause.unwrap_or(pauses).mul_f64(1.0 + fastrand::f64() / 4.0);
            sleep(pause).await;
            (pauses, waited) = ((pauses * 2).min(PAUSES.1), waited + pause);
        }
    }

    async fn attempt(&self, line: &BatchLine, url: &str, body: &Value, key: &str) -> Result<SendAttempt> {
        let path = url.strip_prefix("/v1").unwrap_or(url);
        let ServerAnswer { status, pause, body } = match self.server.ask(path, body, key).await {
            Ok(answer) => answer,
            Err(why) => {
                let line = line.refused(&why.to_string(), "server_error");
                return Ok(SendAttempt::Failed { line, why, pause: None });
            }
        };
        if status == DENIED {
            return Err(remote::refused(status, &body));
        }
        let answer = line.answered(status, body.as_bytes());
        if LATER.contains(&status) {
            let why = remote::refused(status, &body);
            return Ok(SendAttempt::Failed { line: answer, why, pause: pause.map(|p| p.min(PAUSES.1)) });
        }
        seen(&self.past).answered = Some(Instant::now());
        Ok(SendAttempt::Answered(answer))
    }

    fn answered_since(&self, then: Instant) -> bool {
        seen(&self.past).answered.is_some_and(|last| last > then)
    }

    /// Whether a request that fails `since` then is at fault, and not the server: others are answered, or it ends connections
    /// of a server that is there.
    async fn is_alone(&self, since: Instant, why: &CliError) -> bool {
        let lost = matches!(why, CliError::Server { .. });
        self.answered_since(since) || lost && self.server.model(None).await.is_ok()
    }

    /// Says why nothing is answered, once for all lines that wait.
    fn complain(&self, since: Instant, why: &CliError) {
        let silent = !self.answered_since(since);
        let mut past = seen(&self.past);
        if silent && past.complained.is_none_or(|last| last.elapsed() > PAUSES.1) {
            past.complained = Some(Instant::now());
            past.complaint = Some(format!("{why}; it is asked again"));
        }
    }

    fn with_model(&self, body: &Value) -> Value {
        let mut body = body.clone();
        let own = if body["model"].is_null() { self.first.as_ref() } else { None };
        if let Some(name) = self.always.as_ref().or(own) {
            body["model"] = json!(name);
        }
        body
    }
}
