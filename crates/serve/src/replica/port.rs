//! What stands between a gateway and the answer to one of its requests.

use crate::{
    frames::{FrameKind, write_frame, write_value},
    router::RequestNames,
    ticket::RequestTicket,
};
use bytes::Bytes;
use serde::Serialize;
use std::io;
use tokio::{io::AsyncWriteExt, net::tcp::OwnedWriteHalf};

/// A request with what engines before told of its answer.
pub(super) struct AskedRequest {
    /// Number of the gateway that asks.
    pub gateway: usize,
    pub ticket: RequestTicket,
    pub body: Bytes,
    /// What the other gateways are told of it.
    pub names: Option<RequestNames>,
    pub told: Vec<Bytes>,
}

/// Frames on their way to the gateway.
pub(super) struct FramePort {
    write: OwnedWriteHalf,
    out: Vec<u8>,
}

impl FramePort {
    pub fn new(write: OwnedWriteHalf) -> FramePort {
        FramePort { write, out: vec![] }
    }

    pub fn frame(&mut self, kind: FrameKind, payload: &[u8]) {
        write_frame(&mut self.out, kind, payload);
    }

    pub fn value(&mut self, kind: FrameKind, value: &impl Serialize) {
        write_value(&mut self.out, kind, value);
    }

    /// Writes what there is, at once: bytes and the mark that tells them go together.
    ///
    /// # Errors
    /// When the gateway is gone.
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.write.write_all(&self.out).await?;
            self.out.clear();
        }
        Ok(())
    }
}
