//! Connections of a gateway: each brings one request.

use super::{
    attend::attend,
    port::{AskedRequest, FramePort},
};
use crate::{
    app::App,
    frames::{FrameKind, FrameReader},
    ticket::RequestTicket,
};
use axum::Router;
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use subtle::ConstantTimeEq;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    time::{sleep, timeout},
};

/// How long a request may take to come: its gateway is on this machine.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Bytes of a frame of a request beside its body at most: a mark.
const MOST_MARK: usize = 64 << 20;
/// After an error of accepting.
const BREATH: Duration = Duration::from_millis(100);

/// Takes connections, each a request that ends with it.
pub(super) async fn accept(app: App, routes: Router, key: Arc<str>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(BREATH).await;
            continue;
        };
        tokio::spawn(serve(app.clone(), routes.clone(), key.clone(), stream));
    }
}

async fn serve(app: App, routes: Router, key: Arc<str>, stream: TcpStream) {
    // Tokens are small and must not wait for one another.
    _ = stream.set_nodelay(true);
    let (mut read, write) = stream.into_split();
    let most = usize::try_from(app.options.max_body).unwrap_or(usize::MAX).max(MOST_MARK);
    let Ok(Some(asked)) = timeout(ARRIVAL, request(&mut read, &key, most)).await else { return };
    let port = FramePort::new(write);
    tokio::select! {
        // Nobody wants the answer any more: dropping it cancels.
        () = gone(&mut read) => {}
        _ = attend(app, routes, asked, port) => {}
    }
}

/// Reads a request; none where it is none, or of somebody without the key.
async fn request(read: &mut OwnedReadHalf, key: &str, most: usize) -> Option<AskedRequest> {
    let (mut reader, mut ticket, mut body, mut told) = (FrameReader::new(most), None, Bytes::new(), vec![]);
    loop {
        while let Some((kind, payload)) = reader.next().ok()? {
            match kind {
                FrameKind::Ticket => {
                    let found: RequestTicket = serde_json::from_slice(&payload).ok()?;
                    let known: bool = found.key.as_bytes().ct_eq(key.as_bytes()).into();
                    ticket = Some(known.then_some(found)?);
                }
                FrameKind::Request => body = payload,
                FrameKind::Told => told.push(payload),
                FrameKind::Go => return ticket.map(|ticket| AskedRequest { ticket, body, told }),
                _ => {}
            }
        }
        // Nothing is held for who has no key.
        if read.read_buf(reader.room()).await.ok()? == 0 {
            return None;
        }
    }
}

/// Waits for the gateway to close the connection.
async fn gone(read: &mut OwnedReadHalf) {
    let mut byte = [0];
    while read.read(&mut byte).await.is_ok_and(|n| n > 0) {}
}
