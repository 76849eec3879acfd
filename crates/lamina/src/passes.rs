//! Rows of given texts: logits, hidden rows, embeddings, scores of a reranker.

use crate::{
    Error, Result,
    generate::{GenerateOptions, Prompt},
    model::Model,
};
use lamina_base::human_bytes;
use lamina_engine::{
    EngineError, Event, EventLog, Handle, Pass, Pooled, Pooling, RowSink, Task, Terms, TraceLooks, pooled,
};
use lamina_image::Picture;
use lamina_load::ModelOutput;
use lamina_plan::Select;
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc::RecvTimeoutError},
    task::{Context, Poll, ready},
    time::Duration,
};

/// How often a waiting pass asks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Which rows a pass hands out for every position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Logits, `[tokens x vocab]`.
    Logits,
    /// The residual, `[tokens x hidden]`: after the embedding (0), after layer `n`, or after the final norm (-1, or the
    /// number of layers). Negative numbers count from the end.
    Hidden(isize),
}

/// A pass over tokens that gives one row.
pub struct SentRow {
    /// Says when it has finished.
    pub handle: Handle,
    /// Has the row then.
    pub rows: Pooled,
    /// Tokens that it reads.
    pub tokens: usize,
}

impl SentRow {
    /// Ready when the row is there or the pass has failed; else a wake-up when there is news.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            match ready!(self.handle.poll_next(context)) {
                Some(Event::Finished { .. }) => return Poll::Ready(Ok(())),
                Some(Event::Failed(e)) => return Poll::Ready(Err(e.into())),
                Some(Event::Token(_) | Event::Prompt { .. } | Event::Progress { .. }) => {}
                None => return Poll::Ready(Err(EngineError::Closed.into())),
            }
        }
    }
}

impl Model {
    /// Logits of every position, `[tokens x vocab]`.
    ///
    /// # Errors
    /// As for [`Model::rows`].
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.rows(tokens, Rows::Logits, &mut || true)
    }

    /// Logits of every position behind pictures, whose soft tokens are among `tokens`.
    ///
    /// # Errors
    /// As for [`Model::rows`]; also when there are not as many soft tokens as the pictures have rows.
    pub fn logits_seeing(&self, tokens: &[u32], images: &[Arc<Picture>]) -> Result<Vec<f32>> {
        self.logits_with(tokens, &GenerateOptions { images: images.to_vec(), ..GenerateOptions::default() })
    }

    /// Logits of every position behind the pictures and sounds of `options`, whose soft tokens are among `tokens`.
    ///
    /// # Errors
    /// As for [`Model::logits_seeing`].
    pub fn logits_with(&self, tokens: &[u32], options: &GenerateOptions) -> Result<Vec<f32>> {
        let (rows, _) = self.media_rows(tokens, &options.into())?;
        let shared = Arc::new(Mutex::new(room_for_rows(tokens.len(), self.shared.info.vocab)?));
        let all = shared.clone();
        let sink =
            move |_, new: &[f32]| all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(new);
        let pass = Pass { hidden: None, rows: Select::All, second: None, sink: Box::new(sink) };
        let (scales, task, terms) = (self.scales.clone(), Task::Pass(pass), Terms::default());
        let handle = self.shared.service.submit_rows(tokens.to_vec(), rows, scales, task, terms)?;
        finished(&handle, &mut || true)?;
        let mut out = shared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *out))
    }

    /// Residual rows of every position, `[tokens x hidden]`; see [`Rows::Hidden`] for the numbers of layers.
    ///
    /// # Errors
    /// As for [`Model::rows`].
    pub fn hidden(&self, tokens: &[u32], layer: isize) -> Result<Vec<f32>> {
        self.rows(tokens, Rows::Hidden(layer), &mut || true)
    }

    /// Rows of every position; `keep` is asked while it waits, and gives up by returning false.
    ///
    /// # Errors
    /// When there is no such layer, the tokens do not fit, the model fails, or `keep` gives up.
    pub fn rows(&self, tokens: &[u32], rows: Rows, keep: &mut dyn FnMut() -> bool) -> Result<Vec<f32>> {
        let mark = match rows {
            Rows::Logits => None,
            Rows::Hidden(layer) => Some(self.mark(layer)?),
        };
        let width = if mark.is_some() { self.shared.info.hidden } else { self.shared.info.vocab };
        let shared = Arc::new(Mutex::new(room_for_rows(tokens.len(), width)?));
        let all = shared.clone();
        let sink =
            move |_, new: &[f32]| all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(new);
        self.pass(tokens.to_vec(), mark, Box::new(sink), keep)?;
        let mut rows = shared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *rows))
    }

    /// The plan's mark behind a layer.
    fn mark(&self, layer: isize) -> Result<usize> {
        let layers = self.shared.info.layers as isize;
        // The residual before the final norm is not offered: what follows the last layer is its normed form.
        let index = if layer < 0 { layer + layers + 1 } else { layer };
        if !(0..=layers).contains(&index) {
            let range = format!("from {} to {layers}", -layers - 1);
            return Err(Error::InvalidRequest(format!("layer is {layer}, but must be {range}")));
        }
        Ok(if index == layers { index + 1 } else { index } as usize)
    }

    /// One vector of length one for a text: its final hidden rows, pooled as the model's makers do; the mean where they
    /// say nothing.
    ///
    /// # Errors
    /// As for [`Model::rows`]; when the model's own pooling is not built.
    pub fn embed(&self, prompt: &Prompt, keep: &mut dyn FnMut() -> bool) -> Result<Vec<f32>> {
        let sent = self.submit_embedding(prompt, Terms::default())?;
        finished(&sent.handle, keep)?;
        Ok(sent.rows.unit())
    }

    /// Sends a text for [`Model::embed`]; its vector is the direction of the row.
    ///
    /// # Errors
    /// As for [`Model::submit`]; when the model's own pooling is not built.
    pub fn submit_embedding(&self, prompt: &Prompt, terms: Terms) -> Result<SentRow> {
        let (tokens, pooling) = (self.prompt_tokens(prompt)?, self.shared.info.pooling.clone()?);
        let count = tokens.len();
        let (handle, rows) = self.submit_pooled(tokens, pooling, terms)?;
        Ok(SentRow { handle, rows, tokens: count })
    }

    /// Sends tokens whose final hidden rows become one vector, which the pool has when the handle says `Finished`.
    ///
    /// # Errors
    /// As for [`Model::submit`]; also when the model has no such rows.
    pub fn submit_pooled(
        &self,
        tokens: Vec<u32>,
        pooling: Pooling,
        terms: Terms,
    ) -> Result<(Handle, Pooled)> {
        let (sink, pool) = pooled(pooling, self.shared.info.hidden);
        let pass = Pass { hidden: Some(self.mark(-1)?), rows: pooling.rows(), second: None, sink };
        let task = Task::Pass(pass);
        Ok((self.shared.service.submit(tokens, self.scales.clone(), task, terms)?, pool))
    }

    /// How well each document answers the query, by a reranker: the score of its classifier, greater is better.
    ///
    /// # Errors
    /// When the model is no reranker, a pair does not fit, the model fails, or `keep` gives up.
    pub fn rerank(
        &self,
        query: &str,
        documents: &[String],
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<f32>> {
        // All of them first: they share steps.
        let ask = |d: &String| self.submit_pair(query, d, Terms::default());
        let asked = documents.iter().map(ask).collect::<Result<Vec<_>>>()?;
        asked
            .into_iter()
            .map(|pair| {
                finished(&pair.handle, keep)?;
                Ok(pair.rows.row()[0])
            })
            .collect()
    }

    /// True where it continues texts; an encoder only reads them.
    pub fn continues_texts(&self) -> bool {
        matches!(self.shared.info.output, ModelOutput::Tokens)
    }

    /// True for a reranker: it scores pairs of texts.
    pub fn scores_pairs(&self) -> bool {
        matches!(self.shared.info.output, ModelOutput::Classes { labels: 1, .. })
    }

    /// Sends a query and a document to a reranker; the row is their score.
    ///
    /// # Errors
    /// As for [`Model::submit`]; also when the model is no reranker.
    pub fn submit_pair(&self, query: &str, document: &str, terms: Terms) -> Result<SentRow> {
        if !self.scores_pairs() {
            let what = "reranking needs a model with a classifier of one score, such as bge-reranker";
            return Err(Error::Unsupported(what.into()));
        }
        let (tokens, second) = self.need_tokenizer()?.encode_pair(query, document)?;
        let (sink, rows) = pooled(Pooling::First, 1);
        let second = (self.shared.info.segments > 1).then_some(second);
        self.send_row(tokens, Pass { hidden: None, rows: Select::All, second, sink }, rows, terms)
    }

    /// Sends tokens for the logits of what follows them.
    ///
    /// # Errors
    /// As for [`Model::submit`]; also when the model has no logits.
    pub fn submit_logits(&self, tokens: Vec<u32>, terms: Terms) -> Result<SentRow> {
        let (sink, rows) = pooled(Pooling::Last, self.shared.info.vocab);
        self.send_row(tokens, Pass { hidden: None, rows: Select::Last, second: None, sink }, rows, terms)
    }

    fn send_row(&self, tokens: Vec<u32>, pass: Pass, rows: Pooled, terms: Terms) -> Result<SentRow> {
        let (count, task) = (tokens.len(), Task::Pass(pass));
        let handle = self.shared.service.submit(tokens, self.scales.clone(), task, terms)?;
        Ok(SentRow { handle, rows, tokens: count })
    }

    /// One forward over `tokens`; `sink` takes the row of each as they come. `keep` is asked while it waits, and gives up by
    /// returning false.
    ///
    /// # Errors
    /// When the tokens do not fit, the model fails, or `keep` gives up.
    pub fn pass(
        &self,
        tokens: Vec<u32>,
        hidden: Option<usize>,
        sink: RowSink,
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.run_pass(tokens, Pass { hidden, rows: Select::All, second: None, sink }, keep)
    }

    /// One forward over `tokens` that looks inside of its steps, and what was seen there. A recording that was on is over
    /// afterwards.
    ///
    /// # Errors
    /// As for [`Model::rows`].
    pub fn look(
        &self,
        tokens: &[u32],
        looks: TraceLooks,
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<EventLog> {
        self.shared.service.look(looks);
        let passed = self.pass(tokens.to_vec(), None, Box::new(|_, _| {}), keep);
        let log = self.record(None);
        passed?;
        log.ok_or_else(|| EngineError::Closed.into())
    }

    fn run_pass(&self, tokens: Vec<u32>, pass: Pass, keep: &mut dyn FnMut() -> bool) -> Result<()> {
        let task = Task::Pass(pass);
        let handle = self.shared.service.submit(tokens, self.scales.clone(), task, Terms::default())?;
        finished(&handle, keep)
    }
}

/// Waits for the first end of a request; `keep` is asked meanwhile, and gives up by returning false.
pub(crate) fn finished(handle: &Handle, keep: &mut dyn FnMut() -> bool) -> Result<()> {
    loop {
        match handle.next_within(PATIENCE) {
            Ok(Event::Finished { .. }) => return Ok(()),
            Ok(Event::Failed(e)) => return Err(e.into()),
            Ok(Event::Token(_) | Event::Prompt { .. } | Event::Progress { .. }) => {}
            Err(RecvTimeoutError::Timeout) if keep() => {}
            // Dropping the handle cancels the request.
            Err(RecvTimeoutError::Timeout) => return Err(Error::Runtime("the pass was cancelled".into())),
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Closed.into()),
        }
    }
}

/// Memory for `rows` rows of `width` numbers: of long prompts more than there is.
fn room_for_rows(rows: usize, width: usize) -> Result<Vec<f32>> {
    let (mut room, numbers) = (vec![], rows.saturating_mul(width));
    room.try_reserve_exact(numbers).map_err(|_| {
        let bytes = human_bytes(4 * numbers as u64);
        Error::OutOfMemory(format!(
            "{rows} rows of {width} numbers take {bytes}, which cannot be had: ask for fewer"
        ))
    })?;
    Ok(room)
}
