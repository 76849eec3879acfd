//! Beam search: the likeliest answers to a prompt.

use crate::{
    Error, Result,
    generate::{GenerateOptions, Prompt},
    model::Model,
};
use lamina_engine::{Beam, BeamSearch, BeamTask, EarlyStopping, EngineError, Event, Handle, Task};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc::RecvTimeoutError},
    task::{Context, Poll, ready},
    time::Duration,
};

/// How often a wait asks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// How answers are searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeamOptions {
    /// Beginnings that go on side by side, from 1 to 64.
    pub width: usize,
    /// Answers are compared by the sum of their logprobs by this power of their length: above 0 it favors long ones.
    pub length_penalty: f32,
    /// When the search ends.
    pub early_stopping: EarlyStopping,
}

impl Default for BeamOptions {
    fn default() -> Self {
        BeamOptions { width: 4, length_penalty: 1.0, early_stopping: EarlyStopping::Heuristic }
    }
}

/// A search that was sent to the engine. Dropping it cancels it.
pub struct SentSearch {
    handle: Handle,
    found: Arc<Mutex<Option<Vec<Beam>>>>,
    n: usize,
}

impl Model {
    /// The `n` likeliest answers to a prompt, best first; fewer where there are no more. Semantics are those of
    /// transformers' `generate(num_beams=..)`. Of `options` it follows `max_tokens`, `stop`, `stop_tokens`, `n`,
    /// `ignore_eos`, `grammar`, `reasoning` and `terms`. `keep` is asked while it waits, and gives up by returning false.
    ///
    /// # Errors
    /// When `n` is above the width, the beams do not fit, an option is wrong, the model fails, or `keep` gives up.
    pub fn beam(
        &self,
        prompt: &Prompt,
        options: &GenerateOptions,
        beams: &BeamOptions,
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Beam>> {
        let sent = self.submit_beams(self.prompt_tokens(prompt)?, options, beams)?;
        loop {
            match sent.handle.next_within(PATIENCE) {
                Ok(event) => match sent.taken(Some(event)) {
                    Poll::Ready(found) => return found,
                    Poll::Pending => {}
                },
                Err(RecvTimeoutError::Timeout) if keep() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::Runtime("the search was cancelled".into()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Closed.into()),
            }
        }
    }

    /// Sends a prompt for [`Model::beam`].
    ///
    /// # Errors
    /// As for [`Model::submit`]; when `n` is above the width.
    pub fn submit_beams(
        &self,
        tokens: Vec<u32>,
        options: &GenerateOptions,
        beams: &BeamOptions,
    ) -> Result<SentSearch> {
        let BeamOptions { width, length_penalty, early_stopping } = *beams;
        if options.n == 0 || options.n > width {
            let text = format!("n is {}, but must be from 1 to the width of the search, {width}", options.n);
            return Err(Error::InvalidRequest(text));
        }
        if !options.stop.is_empty() {
            self.need_tokenizer()?;
        }
        let search = BeamSearch {
            width,
            max_tokens: options.max_tokens,
            length_penalty,
            early_stopping,
            end_tokens: self.ends(options),
            stop: options.stop.clone(),
            constraint: self.constraint(options)?,
            tokenizer: self.tokenizer().cloned(),
        };
        let found = Arc::new(Mutex::new(None));
        let taken = found.clone();
        let sink = move |beams| *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(beams);
        let task = Task::Beams(Box::new(BeamTask::new(search, Box::new(sink))));
        let handle = self.shared.service.submit(tokens, self.scales.clone(), task, options.terms.clone())?;
        Ok(SentSearch { handle, found, n: options.n })
    }
}

impl SentSearch {
    /// The answers, best first, or a wake-up when they are there.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Vec<Beam>>> {
        loop {
            let event = ready!(self.handle.poll_next(context));
            if let Poll::Ready(found) = self.taken(event) {
                return Poll::Ready(found);
            }
        }
    }

    /// What an event says of the end.
    fn taken(&self, event: Option<Event>) -> Poll<Result<Vec<Beam>>> {
        match event {
            Some(Event::Finished { .. }) => {
                let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
                let late = || Error::Runtime("the time of the search was over before it had ended".into());
                Poll::Ready(found.ok_or_else(late).map(|found| found.into_iter().take(self.n).collect()))
            }
            Some(Event::Failed(e)) => Poll::Ready(Err(e.into())),
            Some(Event::Token(_) | Event::Prompt { .. } | Event::Progress { .. }) => Poll::Pending,
            None => Poll::Ready(Err(EngineError::Closed.into())),
        }
    }
}
