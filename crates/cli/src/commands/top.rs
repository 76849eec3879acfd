//! `lamina top`: what a server does now, in a terminal.

use super::Execute;
use crate::{
    args::ServerArgs,
    error::{CliError, Result},
    output::{self, note},
    remote::{self, RemoteServer, RequestOrder, Screen},
};
use serde_json::Value;
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Where servers listen that were not told otherwise.
const USUAL: &str = "http://127.0.0.1:8080";
/// How long until a server that was lost is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Show what a server does now: speed, times, memory, requests, and where time goes
///
/// The same as its page /top, once a second. Keys: a, t and r order requests by age, tokens and speed; q ends.
#[derive(clap::Args)]
pub struct TopArgs {
    /// The server [default: http://127.0.0.1:8080]
    url: Option<String>,
    /// Key of the server
    #[arg(long, value_name = "KEY", env = "LAMINA_API_KEY", hide_env_values = true, help_heading = "Server")]
    api_key: Option<String>,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// One look, and no more
    #[arg(long)]
    once: bool,
    /// Samples as JSON, one a line
    #[arg(long)]
    json: bool,
}

impl Execute for TopArgs {
    const NAME: &'static str = "top";

    fn execute(self) -> Result<()> {
        let wrong = |_| CliError::usage("--interval must be a number of seconds above 0");
        let interval = Duration::try_from_secs_f64(self.interval).map_err(wrong)?;
        let url = self.url.unwrap_or_else(|| USUAL.into());
        let server = RemoteServer::named(&ServerArgs { server: Some(url), api_key: self.api_key })?;
        let server = server.ok_or_else(|| CliError::usage("there is no server without an address"))?;
        let lines = self.once || self.json || !console::Term::stdout().is_term();
        let runtime = remote::runtime()?;
        match lines {
            true => runtime.block_on(print(&server, interval, self.once, self.json)),
            false => runtime.block_on(show(&server, interval)),
        }
    }
}

/// Looks as lines, until the server ends or nobody reads.
async fn print(server: &RemoteServer, interval: Duration, once: bool, json: bool) -> Result<()> {
    let (mut samples, mut screen, mut last) = (server.follow("/top/events").await?, Screen::default(), None);
    while let Some(event) = samples.next().await? {
        let Some(sample) = screen.take(event) else { continue };
        // Speeds are known from the second sample on.
        if sample["out"].is_null() || !is_due(&mut last, interval) {
            continue;
        }
        match json {
            true => output::json(&sample)?,
            false => output::text(&screen.drawn(&sample, RequestOrder::Age, 100))?,
        }
        if once {
            return Ok(());
        }
    }
    Err(samples.cut_off())
}

/// Looks on a screen, until somebody presses q.
async fn show(server: &RemoteServer, interval: Duration) -> Result<()> {
    let (terminal, order) = (console::Term::stdout(), Arc::new(AtomicU8::new(0)));
    // A server that is not there at the start is an error; one that goes is waited for, as its restart may be the reason.
    let mut samples = server.follow("/top/events").await?;
    let keys = (terminal.clone(), order.clone());
    thread::spawn(move || listen(&keys.0, &keys.1));
    let mut screen = Screen::default();
    loop {
        let mut last = None;
        while let Ok(Some(event)) = samples.next().await {
            let Some(sample) = screen.take(event) else { continue };
            if is_due(&mut last, interval) {
                draw(&terminal, &screen, &sample, RequestOrder::numbered(order.load(Ordering::Relaxed)))?;
            }
        }
        samples = loop {
            note(&format!("{} is gone, waiting for it; q ends", server.url()));
            tokio::time::sleep(AGAIN).await;
            if let Ok(samples) = server.follow("/top/events").await {
                break samples;
            }
        };
    }
}

fn draw(terminal: &console::Term, screen: &Screen, sample: &Value, order: RequestOrder) -> Result<()> {
    let (rows, columns) = terminal.size();
    let text = screen.drawn(sample, order, usize::from(columns));
    let shown: Vec<&str> = text.lines().take(usize::from(rows).saturating_sub(1)).collect();
    let all = terminal.clear_screen().and_then(|()| terminal.write_line(&shown.join("\n")));
    all.map_err(CliError::Terminal)
}

/// Follows the keys. Ctrl-C is the signal that it is elsewhere.
fn listen(terminal: &console::Term, order: &AtomicU8) {
    while let Ok(key) = terminal.read_key() {
        match key {
            console::Key::Char('q') | console::Key::Escape => process::exit(0),
            console::Key::Char(letter) => {
                let numbered = RequestOrder::KEYS.iter().position(|known| *known == letter);
                numbered.into_iter().for_each(|n| order.store(n as u8, Ordering::Relaxed));
            }
            _ => {}
        }
    }
}

/// Whether it is time for another look.
fn is_due(last: &mut Option<Instant>, interval: Duration) -> bool {
    // Samples come a second apart, some a little early.
    let slack = Duration::from_millis(200);
    let due = last.is_none_or(|at| at.elapsed() + slack >= interval);
    if due {
        *last = Some(Instant::now());
    }
    due
}
