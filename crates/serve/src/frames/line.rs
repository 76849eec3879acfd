//! A connection that frames go over, both ways.

use super::{FrameKind, FrameReader, write_frame};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

/// A connection that frames go over.
#[derive(Debug)]
pub struct FrameLine {
    stream: TcpStream,
    reader: FrameReader,
    /// Since when the next frame is waited for, or its last bytes came.
    waits: Option<Instant>,
}

impl FrameLine {
    /// Frames of at most so many bytes come over this connection.
    pub fn new(stream: TcpStream, most: usize) -> FrameLine {
        // Tokens are small and must not wait for one another.
        _ = stream.set_nodelay(true);
        FrameLine { stream, reader: FrameReader::new(most), waits: None }
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

    /// The next frame. The future may be dropped: nothing is lost, and the time that was waited counts.
    ///
    /// # Errors
    /// When the connection has ended, is damaged, or brings nothing for so long.
    pub async fn next(&mut self, patience: Duration) -> io::Result<(FrameKind, Bytes)> {
        loop {
            if let Some(frame) = self.reader.next().map_err(io::Error::other)? {
                self.waits = None;
                return Ok(frame);
            }
            let end = *self.waits.get_or_insert_with(Instant::now) + patience;
            let read = timeout_at(end, self.stream.read_buf(self.reader.room())).await;
            self.waits = read.is_ok().then(Instant::now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        net::TcpListener,
        time::{sleep, timeout},
    };

    /// Who attends to a line does other things between: a beat of its own, news. The other side is silent all the same.
    #[tokio::test]
    async fn silence_counts_also_where_waiting_is_interrupted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a peer");
        let (far, _) = listener.accept().await.expect("a peer");
        let (mut near, mut far) = (FrameLine::new(near, 100), FrameLine::new(far, 100));
        let patience = Duration::from_millis(300);
        let mut attend = async || loop {
            tokio::select! {
                frame = near.next(patience) => return frame.map(|(kind, _)| kind).map_err(|e| e.kind()),
                () = sleep(patience / 10) => {}
            }
        };
        let begun = Instant::now();
        assert_eq!(timeout(patience * 30, attend()).await, Ok(Err(io::ErrorKind::TimedOut)));
        assert!(begun.elapsed() >= patience);
        far.send(FrameKind::Alive, &[]).await.expect("a reader");
        assert_eq!(timeout(patience * 30, attend()).await, Ok(Ok(FrameKind::Alive)), "what has come counts");
        let begun = Instant::now();
        assert_eq!(timeout(patience * 30, attend()).await, Ok(Err(io::ErrorKind::TimedOut)));
        assert!(begun.elapsed() >= patience, "from the frame on");
    }
}
