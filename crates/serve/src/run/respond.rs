//! A running request as the body of a response.

use super::{
    collect::WholeAnswer,
    delta::{AnswerDelta, ChoiceEnd, DeltaPart, TokenUsage},
    frames::Frames,
    render::Render,
    stream::Run,
};
use crate::error::ApiError;
use bytes::Bytes;
use http_body::Frame;
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes of a stream that are written at once where the reader is behind.
const LARGE: usize = 16 << 10;

/// Is told what becomes of a request, for logs and metrics.
pub trait Observer: Send + 'static {
    /// The first token of all answers has come.
    fn first_token(&mut self);
    /// A token has come after another one.
    fn next_token(&mut self);
    /// The first answer has this token.
    fn chose(&mut self, _id: u32) {}
    /// An answer has ended.
    fn ended(&mut self, end: &ChoiceEnd);
    /// All answers have ended.
    fn done(&mut self, usage: &TokenUsage);
    /// The request has failed.
    fn failed(&mut self, error: &ApiError);
}

/// Tells an observer of a piece.
fn observe(observer: &mut dyn Observer, delta: &AnswerDelta, begun: &mut bool) {
    for token in &delta.tokens {
        if delta.choice == 0 {
            observer.chose(token.id);
        }
        if std::mem::replace(begun, true) {
            observer.next_token();
        } else {
            observer.first_token();
        }
    }
    if let DeltaPart::End(end) = &delta.part {
        observer.ended(end);
    }
}

/// Waits for all answers.
///
/// # Errors
/// What ended the request.
pub async fn whole(mut run: Run, mut observer: impl Observer) -> Result<WholeAnswer, ApiError> {
    let mut answer = WholeAnswer::new(run.started().choices);
    let mut begun = false;
    while let Some(delta) = run.next().await {
        let delta = delta.inspect_err(|e| observer.failed(e))?;
        observe(&mut observer, &delta, &mut begun);
        answer.push(delta);
    }
    answer.usage = run.usage();
    observer.done(&answer.usage);
    Ok(answer)
}

/// A stream of a dialect's words. Dropping it cancels the request.
pub struct RenderedStream {
    run: Run,
    renderer: Box<dyn Render>,
    observer: Box<dyn Observer>,
    out: Frames,
    begun: bool,
    over: bool,
    ping: Duration,
    silence: Pin<Box<Sleep>>,
}

impl RenderedStream {
    /// The stream of a running request; `ping` is how long it may be silent.
    pub fn new(
        mut run: Run,
        mut renderer: Box<dyn Render>,
        observer: Box<dyn Observer>,
        ping: Duration,
    ) -> RenderedStream {
        let mut out = Frames::default();
        renderer.begin(run.started(), &mut out);
        while let Some(delta) = run.next_told() {
            renderer.delta(&delta, &mut out);
        }
        if run.told_before() {
            out.take();
        }
        let silence = Box::pin(sleep(ping));
        RenderedStream { run, renderer, observer, out, begun: false, over: false, ping, silence }
    }

    /// Writes what has come; true when more may come later.
    fn fill(&mut self, context: &mut Context<'_>) -> bool {
        while self.out.len() < LARGE {
            match self.run.poll_next(context) {
                Poll::Pending => return true,
                Poll::Ready(Some(Ok(delta))) => {
                    observe(&mut *self.observer, &delta, &mut self.begun);
                    self.renderer.delta(&delta, &mut self.out);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.observer.failed(&error);
                    self.renderer.error(&error, &mut self.out);
                    return false;
                }
                Poll::Ready(None) => {
                    self.observer.done(&self.run.usage());
                    self.renderer.end(&self.run.usage(), &mut self.out);
                    return false;
                }
            }
        }
        true
    }
}

impl http_body::Body for RenderedStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if !this.over {
            this.over = !this.fill(context);
        }
        if this.out.is_empty() && !this.over && this.silence.as_mut().poll(context).is_ready() {
            this.renderer.ping(&mut this.out);
            // Polled once so that the next silence wakes this task.
            this.silence.as_mut().reset(Instant::now() + this.ping);
            _ = this.silence.as_mut().poll(context);
        }
        if this.out.is_empty() {
            return if this.over { Poll::Ready(None) } else { Poll::Pending };
        }
        this.silence.as_mut().reset(Instant::now() + this.ping);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(this.out.take())))))
    }
}
