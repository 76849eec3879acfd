//! A load generator: requests that arrive by a plan, and the times of their tokens.

mod client;
mod plan;
mod report;

pub use plan::{Arrivals, Lengths, LoadPlan};
pub use report::LoadReport;

use super::server::RemoteServer;
use crate::error::{CliError, Result};
use client::{Outcome, PromptMaker, request};
use std::{sync::Arc, time::Instant};
use tokio::{sync::Semaphore, task::JoinSet};

/// Sends the requests of `plan` to `server` and waits for all of them. `progress` hears of each one that ends.
///
/// # Errors
/// When the server cannot be reached at all; requests that fail later are counted in the report.
pub async fn measure(
    server: &RemoteServer,
    model: Option<String>,
    plan: &LoadPlan,
    progress: impl Fn(usize),
) -> Result<LoadReport> {
    let prompts = PromptMaker::ask(server, model.as_deref()).await?;
    warm_up(server, model.as_deref(), plan, &prompts).await?;
    let room = Arc::new(Semaphore::new(plan.at_once.min(Semaphore::MAX_PERMITS)));
    let mut running = JoinSet::new();
    let mut outcomes = vec![];
    let start = Instant::now();
    for (i, planned) in plan.requests.iter().enumerate() {
        if let Some(at) = planned.at {
            tokio::time::sleep_until((start + at).into()).await;
        }
        // The semaphore is never closed.
        let Ok(place) = room.clone().acquire_owned().await else { break };
        let (server, body) = (server.clone(), prompts.body(model.as_deref(), planned, plan.seed + i as u64));
        running.spawn(async move {
            let outcome = request(&server, &body).await;
            drop(place);
            outcome
        });
        while let Some(done) = running.try_join_next() {
            keep(&mut outcomes, done, &progress)?;
        }
    }
    while let Some(done) = running.join_next().await {
        keep(&mut outcomes, done, &progress)?;
    }
    Ok(LoadReport::of(server.url(), model, plan, outcomes, start.elapsed()))
}

fn keep(
    outcomes: &mut Vec<Outcome>,
    done: std::result::Result<Outcome, tokio::task::JoinError>,
    progress: &impl Fn(usize),
) -> Result<()> {
    outcomes.push(done.map_err(|e| CliError::Output(std::io::Error::other(e)))?);
    progress(outcomes.len());
    Ok(())
}

/// One short request, so that a model that has to be loaded first is not measured, and a server that refuses such
/// requests says so at once.
async fn warm_up(
    server: &RemoteServer,
    model: Option<&str>,
    plan: &LoadPlan,
    prompts: &PromptMaker,
) -> Result<()> {
    let planned = plan::PlannedRequest { at: None, prompt: 8, answer: 2 };
    let body = prompts.body(model, &planned, u64::MAX - plan.seed);
    client::stream(server, &body).await.map(drop)
}
