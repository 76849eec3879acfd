//! What the thread of a server does from its begin to its end.

use super::{connection::Connections, listen::Listening};
use crate::{app::App, gateway::Gateway, top};
use std::{sync::mpsc, time::Duration};
use tokio::{runtime::Runtime, time::timeout};
use tokio_util::sync::CancellationToken;

/// How long the end waits for who reads the log, and for the collector of spans.
const LAST_LINES: Duration = Duration::from_secs(1);
const LAST_SPANS: Duration = Duration::from_secs(2);

/// What the thread of a server has.
pub(super) struct ServerWorker {
    pub app: App,
    pub gateway: Option<Gateway>,
    pub connections: Connections,
    pub runtime: Runtime,
    /// Dropped when all is over.
    pub over: mpsc::Sender<()>,
}

impl ServerWorker {
    /// Serves until the end was asked for and all requests have ended.
    pub fn run(self, listening: Listening) {
        let ServerWorker { app, gateway, connections, runtime, over } = self;
        let (models, watched, sending) = (app.models.clone(), app.clone(), app.clone());
        let last = CancellationToken::new();
        let ends = last.clone();
        let listens = gateway.clone().map(|gateway| runtime.spawn(async move { gateway.listen().await }));
        let idle = runtime.spawn(async move { models.forget_idle().await });
        let samples = runtime.spawn(async move { top::run(&watched).await });
        let spans = runtime.spawn(async move {
            if let Some(spans) = &sending.spans {
                spans.run(ends, |line| sending.log.line(line)).await;
            }
        });
        runtime.block_on(connections.serve(listening));
        idle.abort();
        samples.abort();
        listens.iter().for_each(|listens| listens.abort());
        gateway.iter().for_each(Gateway::end);
        last.cancel();
        // What the collector does not take in this time is lost with the process.
        _ = runtime.block_on(async { timeout(LAST_SPANS, spans).await });
        app.log.flush(LAST_LINES);
        // What still runs on the pool ends by itself.
        runtime.shutdown_background();
        drop(over);
    }
}
