//! Pieces of the answers to a prompt, as they come.

use crate::{
    Error, Result,
    generate::{GenerateOptions, Piece, Prompt},
    media_use::MediaUsed,
    model::Model,
};
use lamina_engine::{Canceller, EngineError, Event, Handle, Token};
use std::{
    sync::mpsc::{RecvTimeoutError, TryRecvError},
    task::{Context, Poll},
    time::Duration,
};

/// Pieces of the answers to one prompt, as they come: waited for, with a time limit, or polled. It keeps its model; dropping
/// it cancels the request.
pub struct TokenStream {
    handle: Handle,
    media: MediaUsed,
    left: usize,
    /// The engine ends with the last value of its model, and its requests with it.
    _model: Model,
}

impl Model {
    /// Streams the answers to a prompt.
    ///
    /// # Errors
    /// When the prompt cannot be tokenized; later errors come through the stream.
    pub fn stream(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<TokenStream> {
        let tokens = self.media_tokens(prompt, &options.into())?;
        if !options.stop.is_empty() {
            self.need_tokenizer()?;
        }
        let task = self.task(options)?;
        let (rows, media) = self.media_rows(&tokens, &options.into())?;
        let handle = self.send(tokens, rows, task, options)?;
        // No answers at all is an error that the stream has to bring.
        Ok(TokenStream { media, ..TokenStream::new(handle, options.n.max(1), self.clone()) })
    }
}

impl TokenStream {
    pub(crate) fn new(handle: Handle, answers: usize, model: Model) -> TokenStream {
        TokenStream { handle, media: MediaUsed::default(), left: answers, _model: model }
    }

    /// What the pictures and sounds of the prompt became.
    pub fn media(&self) -> &MediaUsed {
        &self.media
    }

    /// Asks for an early end; the last piece then says `Cancelled`.
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// What cancels it from other threads, while one waits for its pieces.
    pub fn canceller(&self) -> Canceller {
        self.handle.canceller()
    }

    /// The next piece within `time`: `Ok(None)` when none came in time, and `Err(None)` after the last one.
    ///
    /// # Errors
    /// What ended the request, or none when it is over.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Piece>, Option<Error>> {
        if self.left == 0 {
            return Err(None);
        }
        match self.handle.next_within(time) {
            Ok(event) => self.piece(event).map(Some).map_err(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => self.take(None).map(Some).map_err(Some),
        }
    }

    /// The next piece if there is one: `Ok(None)` when none has come yet, and `Err(None)` after the last one.
    ///
    /// # Errors
    /// As for [`TokenStream::next_within`].
    pub fn try_next(&mut self) -> Result<Option<Piece>, Option<Error>> {
        if self.left == 0 {
            return Err(None);
        }
        match self.handle.try_next() {
            Ok(event) => self.piece(event).map(Some).map_err(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => self.take(None).map(Some).map_err(Some),
        }
    }

    /// The next piece, or a wake-up when it has come, for event loops; ready with none after the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Piece>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.handle.poll_next(context).map(|event| Some(self.take(event)))
    }

    /// What an event brings; where there is none any more, the model was closed.
    fn take(&mut self, event: Option<Event>) -> Result<Piece> {
        self.piece(event.unwrap_or(Event::Failed(EngineError::Closed)))
    }

    fn piece(&mut self, event: Event) -> Result<Piece> {
        match event {
            Event::Prompt { tokens, .. } => Ok(Piece { prompt: tokens, ..Piece::empty() }),
            Event::Progress { .. } => Ok(Piece::empty()),
            Event::Token(Token { index, id, text, forced, logprob, top, .. }) => {
                Ok(Piece { index, text, token: Some(id), forced, logprob, top, ..Piece::empty() })
            }
            Event::Finished { index, text, reason, complete, sampler, timings } => {
                self.left -= 1;
                Ok(Piece { index, text, end: Some((reason, timings)), complete, sampler, ..Piece::empty() })
            }
            Event::Failed(e) => {
                self.left = 0;
                Err(e.into())
            }
        }
    }
}

impl Iterator for TokenStream {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let event = self.handle.next();
        Some(self.take(event))
    }
}
