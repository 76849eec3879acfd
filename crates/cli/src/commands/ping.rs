//! `lamina ping`: whether a server is well.

use super::Execute;
use crate::{
    args::ServerArgs,
    error::{CliError, Result},
    output,
    remote::{self, RemoteServer},
};
use serde_json::json;
use std::time::{Duration, Instant};

/// Ask a server whether it is well; the exit code is 0 if it is, and else 1
///
/// For health checks of containers and services, which then need no other program. No key is needed.
#[derive(clap::Args)]
pub struct PingArgs {
    /// Address of the server
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Seconds until it counts as not there
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    timeout: f64,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for PingArgs {
    const NAME: &'static str = "ping";

    fn execute(self) -> Result<()> {
        let patience = Duration::try_from_secs_f64(self.timeout).ok().filter(|time| !time.is_zero());
        let patience = patience.ok_or_else(|| CliError::usage("--timeout must be a number above 0"))?;
        let named = RemoteServer::named(&ServerArgs { server: Some(self.url), api_key: None })?;
        let Some(server) = named else { return Ok(()) };
        let begun = Instant::now();
        let well = remote::runtime()?
            .block_on(async { tokio::time::timeout(patience, server.get("/health")).await });
        let late = |_| server.problem(format!("no answer in {} s", patience.as_secs_f64()));
        well.map_err(late)??;
        let milliseconds = 1e3 * begun.elapsed().as_secs_f64();
        match self.json {
            true => output::json(&json!({ "url": server.url(), "milliseconds": milliseconds })),
            false => output::text(&format!("{} is well ({milliseconds:.1} ms)\n", server.url())),
        }
    }
}
