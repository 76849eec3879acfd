//! Connections of a gateway: each brings one request.

use super::{
    attend::attend,
    desk::ReplicaDesk,
    port::{AskedRequest, FramePort},
};
use crate::{
    frames::{FrameKind, FrameReader},
    router::RequestNames,
    ticket::RequestTicket,
};
use bytes::Bytes;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
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

/// Takes requests at this address from now on, as long as the process lives; its port. Gateways that reach this process at one
/// address share it.
///
/// # Errors
/// When it cannot be listened on.
pub(super) async fn listen(desk: &Arc<ReplicaDesk>, at: SocketAddr) -> io::Result<u16> {
    let mut ports = desk.ports.lock().await;
    if let Some(port) = ports.get(&at) {
        return Ok(*port);
    }
    let listener = TcpListener::bind(at).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(accept(desk.clone(), listener));
    ports.insert(at, port);
    Ok(port)
}

/// Takes connections, each a request that ends with it.
async fn accept(desk: Arc<ReplicaDesk>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(BREATH).await;
            continue;
        };
        tokio::spawn(serve(desk.clone(), stream));
    }
}

async fn serve(desk: Arc<ReplicaDesk>, stream: TcpStream) {
    // Tokens are small and must not wait for one another.
    _ = stream.set_nodelay(true);
    let (mut read, write) = stream.into_split();
    let most = usize::try_from(desk.app.options.max_body).unwrap_or(usize::MAX).max(MOST_MARK);
    let Ok(Some(asked)) = timeout(ARRIVAL, request(&mut read, &desk, most)).await else { return };
    let port = FramePort::new(write);
    tokio::select! {
        // Nobody wants the answer any more: dropping it cancels.
        () = gone(&mut read) => {}
        _ = attend(&desk, asked, port) => {}
    }
}

/// Reads a request; none where it is none, or of somebody without a key.
async fn request(read: &mut OwnedReadHalf, desk: &ReplicaDesk, most: usize) -> Option<AskedRequest> {
    let (mut reader, mut sender, mut names) = (FrameReader::new(most), None, None);
    let (mut body, mut told) = (Bytes::new(), vec![]);
    loop {
        while let Some((kind, payload)) = reader.next().ok()? {
            match kind {
                FrameKind::Ticket => {
                    let ticket: RequestTicket = serde_json::from_slice(&payload).ok()?;
                    sender = Some((desk.gateway_of(&ticket.key)?, ticket));
                }
                FrameKind::Request => body = payload,
                FrameKind::Names => names = RequestNames::read(&payload),
                FrameKind::Told => told.push(payload),
                FrameKind::Go => {
                    let (gateway, ticket) = sender?;
                    return Some(AskedRequest { gateway, ticket, body, names, told });
                }
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
