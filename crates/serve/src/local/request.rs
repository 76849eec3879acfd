//! A request that runs, for callers inside the process.

use super::{details::details, refused, wait::poll_until};
use crate::run::{AnswerDelta, Run};
use lamina::{Canceller, Result};
use serde_json::Value;
use std::{
    task::{Context, Poll, ready},
    time::Instant,
};

/// A request that runs: it keeps its model, and is cancelled by dropping it.
pub struct LocalRequest {
    run: Run,
    cancellers: Vec<Canceller>,
}

/// A piece of an answer, with what of it has no place in the piece: as JSON, such as the times at its end.
pub type DetailedDelta = (AnswerDelta, Option<Value>);

impl LocalRequest {
    pub(super) fn new(run: Run) -> LocalRequest {
        let cancellers = run.cancellers();
        LocalRequest { run, cancellers }
    }

    /// What cancels it from other threads, while one waits for its pieces: one for each prompt.
    pub fn cancellers(&self) -> &[Canceller] {
        &self.cancellers
    }

    /// The next piece, or a wake-up when it has come; ready with none when all answers have ended.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<DetailedDelta>>> {
        Poll::Ready(match ready!(self.run.poll_next(context)) {
            None => None,
            Some(Ok(delta)) => {
                let details = details(&delta);
                Some(Ok((delta, details)))
            }
            Some(Err(error)) => Some(Err(refused(&error))),
        })
    }

    /// Waits for the next piece, for as long as it takes or until `end`: `Ok(None)` when none came in time, and `Err(None)`
    /// when all answers have ended.
    ///
    /// # Errors
    /// What ended the request, or none when it is over.
    pub fn next_until(
        &mut self,
        end: Option<Instant>,
    ) -> Result<Option<DetailedDelta>, Option<lamina::Error>> {
        match poll_until(end, |context| self.poll_next(context)) {
            None => Ok(None),
            Some(None) => Err(None),
            Some(Some(piece)) => piece.map(Some).map_err(Some),
        }
    }
}
