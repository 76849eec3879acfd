//! Beam search: the likeliest answers to a prompt.

use crate::{
    Error, Result,
    beam_options::BeamOptions,
    generate::{GenerateOptions, Prompt},
    model::Model,
    passes::finished,
};
use lamina_engine::{Beam, BeamSearch, BeamSink, BeamTask, Task};
use std::sync::{Arc, Mutex, PoisonError};

impl Model {
    /// The `n` likeliest answers to a prompt, best first; fewer where there are no more. Semantics are those of
    /// transformers' `generate(num_beams=..)`. Of `options` it follows `max_tokens`, `stop`, `stop_tokens`, `n`,
    /// `ignore_eos`, `grammar`, `reasoning`, `images`, `sounds` and `terms`. `keep` is asked while it waits, and gives up by returning false.
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
        let found = Arc::new(Mutex::new(None));
        let taken = found.clone();
        let sink = move |beams: &[Beam]| {
            *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(beams.to_vec());
        };
        let task = self.search(options, beams, Box::new(sink))?;
        let tokens = self.media_tokens(prompt, &options.into())?;
        let (rows, _) = self.media_rows(&tokens, &options.into())?;
        finished(&self.send(tokens, rows, task, options)?, keep)?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let late = || Error::Runtime("the time of the search was over before it had ended".into());
        found.ok_or_else(late).map(|found| found.into_iter().take(options.n).collect())
    }

    /// The task of a search.
    pub(crate) fn search(
        &self,
        options: &GenerateOptions,
        beams: &BeamOptions,
        sink: BeamSink,
    ) -> Result<Task> {
        let BeamOptions { width, length_penalty, early_stopping } = *beams;
        if !options.stop.is_empty() {
            self.need_tokenizer()?;
        }
        let search = BeamSearch {
            width,
            max_tokens: options.max_tokens,
            length_penalty,
            early_stopping,
            end_tokens: self.ends(options),
            never: self.soft_tokens(),
            stop: options.stop.clone(),
            constraint: self.constraint(options)?,
            tokenizer: self.tokenizer().cloned(),
        };
        Ok(Task::Beams(Box::new(BeamTask::new(search, options.n, sink))))
    }
}
