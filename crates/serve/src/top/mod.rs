//! What a server does now, once a second, for pages and terminals that watch: out of the board of each engine and the
//! numbers of the metrics. Reading them never waits for a step, and one sample serves all who watch.

mod sample;

use crate::{app::App, live::LiveStream};
use sample::{LINE, LiveSampler, line};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often a sample is made.
const EVERY: Duration = Duration::from_secs(1);

/// Makes samples until the server ends.
pub async fn run(app: &App) {
    let mut sampler = LiveSampler::default();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = app.end.cancelled() => return,
        }
        let sample = sampler.sample(app);
        app.feed.push(line(&sample), event(&sample).into());
    }
}

/// A stream of samples: the lines of those before, one of this moment, and each that follows.
pub fn follow(app: &App) -> LiveStream {
    let (lines, receiver) = app.feed.follow();
    let before = json!({ "before": lines, "names": LINE });
    let first = [event(&before), event(&LiveSampler::default().sample(app))].concat();
    LiveStream::new(first.into(), receiver)
}

fn event(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}
