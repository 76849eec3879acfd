//! Accepting connections, and serving each until it ends.

use super::{
    front::Front,
    listen::{Acceptor, ByteStream, Listening},
    open::{ConnectionPlace, OpenConnections},
    pace::{Paced, Patience},
};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use std::{
    net::IpAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes of a request's head at most.
const HEAD: usize = 64 << 10;
/// After an error of accepting, such as too many open files.
const BREATH: Duration = Duration::from_millis(100);
/// How often the end of the last request is looked for.
const TICK: Duration = Duration::from_millis(20);

/// The connections of a server.
pub(super) struct Connections {
    front: Arc<Front>,
    drain: CancellationToken,
    /// Connections without requests close; requests that still come are refused until then.
    close: CancellationToken,
}

impl Connections {
    pub fn new(front: Arc<Front>, drain: CancellationToken) -> Connections {
        Connections { front, drain, close: CancellationToken::new() }
    }

    /// Serves until the server is drained.
    pub async fn serve(self, listening: Listening) {
        let app = self.front.app().clone();
        match listening.into_acceptor() {
            Ok(acceptor) => {
                let open = OpenConnections::new(app.options.max_connections);
                let delay = async {
                    self.drain.cancelled().await;
                    sleep(app.options.drain_delay.0).await;
                };
                tokio::select! {
                    () = self.accept(&acceptor, &open) => {}
                    () = open.watch(app.options.slow_client_timeout.0) => {}
                    () = delay => {}
                }
            }
            Err(e) => app.log.line(&format!("error: cannot listen: {e}")),
        }
        self.close.cancel();
        // The listener is closed by now. What runs goes on for a while, then it is cancelled.
        if timeout(app.options.drain_timeout.0, self.idle()).await.is_err() {
            app.end.cancel();
            // Their last words still go out.
            _ = timeout(Duration::from_secs(2), self.idle()).await;
        }
        app.end.cancel();
    }

    async fn idle(&self) {
        while self.front.app().requests.load(Ordering::SeqCst) > 0 {
            sleep(TICK).await;
        }
    }

    async fn accept(&self, acceptor: &Acceptor, open: &Arc<OpenConnections>) {
        loop {
            let Ok((wire, peer)) = acceptor.accept().await else {
                open.make_room();
                sleep(BREATH).await;
                continue;
            };
            let (front, close, open) = (self.front.clone(), self.close.clone(), open.clone());
            tokio::spawn(async move {
                let Some(place) = open.enter(peer).await else { return };
                let (app, closed) = (front.app().clone(), place.close.clone());
                app.connections.fetch_add(1, Ordering::Relaxed);
                tokio::select! {
                    () = connection(front, close, wire, peer, &place) => {}
                    () = closed.cancelled() => {}
                }
                app.connections.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// Serves a connection, behind TLS where there is a certificate.
async fn connection(
    front: Arc<Front>,
    close: CancellationToken,
    wire: Box<dyn ByteStream>,
    peer: Option<IpAddr>,
    place: &ConnectionPlace,
) {
    match front.tls() {
        None => exchange(front, close, wire, peer, place).await,
        Some(tls) => {
            // Who does not shake hands is no client.
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(wire)).await {
                exchange(front, close, Box::new(stream), peer, place).await;
            }
        }
    }
}

/// Serves the requests of a connection.
async fn exchange(
    front: Arc<Front>,
    close: CancellationToken,
    wire: Box<dyn ByteStream>,
    peer: Option<IpAddr>,
    place: &ConnectionPlace,
) {
    let activity = place.activity.clone();
    let patience = Patience::of_readers(front.app().options.slow_client_timeout.0);
    let io = Paced::new(wire, activity.clone(), patience);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEAD).header_read_timeout(None);
    builder.http2().max_header_list_size(HEAD as u32).max_concurrent_streams(256);
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, busy) = (front.clone(), activity.enter());
        async move { Ok::<_, std::convert::Infallible>(front.answer(request, peer, busy).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // Its errors are the client's: it has left, or speaks no HTTP.
        _ = connection.as_mut() => return,
        () = close.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    _ = connection.await;
}
