//! A connection to an engine: it carries one request.

use crate::{
    frames::{FrameKind, FrameReader, write_frame, write_value},
    ticket::RequestTicket,
};
use bytes::Bytes;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// An engine that says nothing for so long is lost: those that live say so every two seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(6);
/// Bytes of a frame of an answer at most.
const MOST_FRAME: usize = 256 << 20;

/// A request on its way.
pub(super) struct Link {
    stream: TcpStream,
    reader: FrameReader,
}

impl Link {
    /// Sends a request to the engine at this port, with what engines before told of its answer.
    ///
    /// # Errors
    /// When the engine is not there, or does not read.
    pub async fn open(port: u16, ticket: &RequestTicket, body: &Bytes, told: &[Bytes]) -> io::Result<Link> {
        let send = async {
            let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
            _ = stream.set_nodelay(true);
            let mut out = vec![];
            write_value(&mut out, FrameKind::Ticket, ticket);
            write_frame(&mut out, FrameKind::Request, body);
            told.iter().for_each(|mark| write_frame(&mut out, FrameKind::Told, mark));
            write_frame(&mut out, FrameKind::Go, &[]);
            stream.write_all(&out).await?;
            io::Result::Ok(stream)
        };
        let stream = timeout(PATIENCE, send).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Link { stream, reader: FrameReader::new(MOST_FRAME) })
    }

    /// The next frame. The future may be dropped: nothing is lost.
    ///
    /// # Errors
    /// When the connection has ended, is damaged, or is silent for too long.
    pub async fn next(&mut self) -> io::Result<(FrameKind, Bytes)> {
        loop {
            if let Some(frame) = self.reader.next().map_err(io::Error::other)? {
                return Ok(frame);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(self.reader.room())).await;
            if read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
