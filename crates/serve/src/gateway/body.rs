//! An answer that is carried, as the body of a response.

use super::carry::{Carry, Piece};
use crate::{dialect::Dialect, error::ApiError, run::Frames};
use bytes::Bytes;
use http_body::Frame;
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// The rest of a stream. Dropping it ends the engine's turn.
pub(super) struct CarriedBody(CarryState);

/// The next piece on its way, with what brings it.
type NextPiece = Pin<Box<dyn Future<Output = (Carry, Result<Piece, ApiError>)> + Send>>;

enum CarryState {
    /// The first piece came with the head.
    First(Box<Carry>, Bytes),
    Waits(NextPiece),
    Over,
}

impl CarriedBody {
    /// What follows the head: `first`, then all that comes.
    pub fn new(carry: Carry, first: Bytes) -> CarriedBody {
        CarriedBody(CarryState::First(Box::new(carry), first))
    }
}

fn next(mut carry: Carry) -> NextPiece {
    Box::pin(async move {
        let piece = carry.next().await;
        (carry, piece)
    })
}

impl http_body::Body for CarriedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match std::mem::replace(&mut self.0, CarryState::Over) {
                CarryState::Over => return Poll::Ready(None),
                CarryState::First(carry, first) => {
                    self.0 = CarryState::Waits(next(*carry));
                    return Poll::Ready(Some(Ok(Frame::data(first))));
                }
                CarryState::Waits(mut waits) => {
                    let Poll::Ready((carry, piece)) = waits.as_mut().poll(context) else {
                        self.0 = CarryState::Waits(waits);
                        return Poll::Pending;
                    };
                    let data = match piece {
                        Ok(piece) => {
                            if !piece.is_last {
                                self.0 = CarryState::Waits(next(carry));
                            }
                            piece.bytes
                        }
                        Err(error) => told(&carry, &error),
                    };
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
            }
        }
    }
}

/// An error in the words of a stream that has begun.
fn told(carry: &Carry, error: &ApiError) -> Bytes {
    carry.log.entry().finish = Some("error");
    let (mut out, body) = (Frames::default(), error.body(carry.dialect, &carry.ticket.id));
    match carry.dialect {
        Dialect::Ollama => out.line(&body),
        Dialect::Anthropic => out.event("error", &body),
        Dialect::OpenAi | Dialect::Native => out.data(&body),
    }
    Bytes::from(out.take())
}
