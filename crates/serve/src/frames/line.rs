//! A connection that frames go over, both ways.

use super::{FrameKind, FrameReader, write_frame};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A connection that frames go over.
#[derive(Debug)]
pub struct FrameLine {
    stream: TcpStream,
    reader: FrameReader,
}

impl FrameLine {
    /// Frames of at most so many bytes come over this connection.
    pub fn new(stream: TcpStream, most: usize) -> FrameLine {
        // Tokens are small and must not wait for one another.
        _ = stream.set_nodelay(true);
        FrameLine { stream, reader: FrameReader::new(most) }
    }

    /// From now on frames may have so many bytes.
    pub fn allow(&mut self, most: usize) {
        self.reader.allow(most);
    }

    /// Writes frames that stand in these bytes.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.stream.write_all(frames).await
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        let mut out = vec![];
        write_frame(&mut out, kind, payload);
        self.write(&out).await
    }

    /// Writes a frame of JSON.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn send_value(&mut self, kind: FrameKind, value: &impl Serialize) -> io::Result<()> {
        self.send(kind, &serde_json::to_vec(value)?).await
    }

    /// The next frame. The future may be dropped: nothing is lost.
    ///
    /// # Errors
    /// When the connection has ended, is damaged, or brings nothing for so long.
    pub async fn next(&mut self, patience: Duration) -> io::Result<(FrameKind, Bytes)> {
        loop {
            if let Some(frame) = self.reader.next().map_err(io::Error::other)? {
                return Ok(frame);
            }
            let read = timeout(patience, self.stream.read_buf(self.reader.room())).await;
            if read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next frame, which is of this kind and has JSON.
    ///
    /// # Errors
    /// As `next`, and when it is something else.
    pub async fn value<T: DeserializeOwned>(&mut self, kind: FrameKind, patience: Duration) -> io::Result<T> {
        match self.next(patience).await? {
            (found, payload) if found == kind => Ok(serde_json::from_slice(&payload)?),
            (found, _) => {
                Err(io::Error::other(format!("the other side says {found:?} where {kind:?} is due")))
            }
        }
    }
}
