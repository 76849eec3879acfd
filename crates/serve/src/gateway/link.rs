//! A connection to an engine: it carries one request.

use super::door::ReplicaDoor;
use crate::{
    frames::{FrameKind, FrameLine, write_frame, write_value},
    router::RequestNames,
    ticket::RequestTicket,
};
use bytes::Bytes;
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// An engine that says nothing for so long is lost: those that live say so every two seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(6);
/// Bytes of a frame of an answer at most.
pub(super) const MOST_FRAME: usize = 256 << 20;

/// A request on its way.
pub(super) struct Link(FrameLine);

impl Link {
    /// Sends a request to the engine behind this door, with what engines before told of its answer. With names the engine tells
    /// its other gateways of it.
    ///
    /// # Errors
    /// When the engine is not there, or does not read.
    pub async fn open(
        door: &ReplicaDoor,
        ticket: &mut RequestTicket,
        (body, names): (&Bytes, Option<&RequestNames>),
        told: &[Bytes],
    ) -> io::Result<Link> {
        ticket.key.clone_from(&door.key);
        let send = async {
            let mut line = FrameLine::new(TcpStream::connect(door.address).await?, MOST_FRAME);
            let mut out = vec![];
            write_value(&mut out, FrameKind::Ticket, ticket);
            write_frame(&mut out, FrameKind::Request, body);
            names.iter().for_each(|names| write_frame(&mut out, FrameKind::Names, &names.written()));
            told.iter().for_each(|mark| write_frame(&mut out, FrameKind::Told, mark));
            write_frame(&mut out, FrameKind::Go, &[]);
            line.write(&out).await?;
            io::Result::Ok(Link(line))
        };
        timeout(PATIENCE, send).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The next frame. The future may be dropped: nothing is lost.
    ///
    /// # Errors
    /// When the connection has ended, is damaged, or is silent for too long.
    pub async fn next(&mut self) -> io::Result<(FrameKind, Bytes)> {
        self.0.next(PATIENCE).await
    }
}
