//! `_lamina.Stream`: a request that runs.

use crate::{
    chat::{DeltaRow, delta_row},
    discard::discard_shared,
    error::{Failure, Result},
    processor::Raised,
    wait::{POLL, detached},
    watch::watch,
};
use lamina::{
    ChatAnswer, ChatReader, Completion, FinishReason, MediaUsed, Model, PictureUse, Piece, SoundUse,
    Speculation, StopBy, TokenStream, image::PixelSize, sample::SamplerState,
};
use pyo3::{IntoPyObject, prelude::*};
use std::{
    collections::VecDeque,
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// Index, text, token and whether it was forced, logprob, most likely tokens, why the answer ended, whether it is complete.
type PieceRow =
    (usize, String, Option<u32>, bool, Option<f32>, Vec<(u32, f32)>, Option<&'static str>, Option<bool>);
/// Logprob of a token, and the most likely tokens.
type Logprob = (f32, Vec<(u32, f32)>);
/// What ended an answer: the end token, the place of the stop string in the request's list, or the limit's name.
#[derive(IntoPyObject)]
enum Detail {
    Token(u32),
    Text((usize,)),
    Limit(&'static str),
}
/// Token of the prompt, its logprob, and the most likely tokens.
type Scored = (u32, f32, Vec<(u32, f32)>);
/// Name of the reason, and what it was.
type End = (&'static str, Option<Detail>);
/// Text, tokens, why it ended, whether it is complete, logprobs of the answer and of the prompt; tokens of the prompt and
/// how many were cached; seconds in the queue, of prefill and of decode, preemptions, seconds of waiting for the disk,
/// and shifts of the context; what drafts did; where the sampler stands.
type Answer = (
    String,
    Vec<u32>,
    End,
    Option<bool>,
    Vec<Logprob>,
    Vec<Scored>,
    (usize, usize, usize),
    (f64, f64, f64, u32, f64, u32),
    Option<Drafted>,
    SamplerRow,
);
/// Seed, number of the stream, words drawn, and mirostat's surprise.
type SamplerRow = (u64, u64, u64, Option<f32>);
/// Of a picture: its size, that in which it is seen, its tokens, and whether its rows were kept.
type PictureRow = ((u32, u32), (u32, u32), usize, bool);

/// What a sound became: seconds, tokens, and whether its rows were kept.
type SoundRow = (f64, usize, bool);
/// Guessed tokens, those of them that the answer has, the steps that verified any, and who guessed last.
type Drafted = (usize, usize, usize, &'static str);

/// Answers to one prompt, as they come. Dropping it cancels the request.
#[pyclass(frozen, module = "lamina._lamina")]
pub struct Stream {
    /// None once closed.
    stream: Arc<Mutex<Option<OpenRequest>>>,
    answers: usize,
    media: MediaUsed,
    /// What was asked for and is not done.
    warnings: Vec<String>,
    /// What ends the request, where its processor has raised it.
    raised: Raised,
    /// Process that the engine's thread lives in.
    process: u32,
}

/// A request with its model, which lives as long as the request does.
struct OpenRequest {
    stream: TokenStream,
    /// Pieces that came while nobody but a watch asked for them.
    come: VecDeque<lamina::Result<Piece>>,
    _model: Model,
    /// One for each answer of a conversation; none for other requests.
    readers: Vec<ChatReader>,
    /// What answers of a conversation brought, and nobody took yet: with the answer's number.
    deltas: Vec<(usize, DeltaRow)>,
}

impl OpenRequest {
    fn next_within(&mut self, time: Duration) -> std::result::Result<Option<Piece>, Option<lamina::Error>> {
        match self.come.pop_front() {
            Some(piece) => piece.map(Some).map_err(Some),
            None => self.stream.next_within(time),
        }
    }

    /// Ready when the next piece is there that Python is given, or all are.
    fn poll(&mut self, context: &mut Context<'_>, whole: bool) -> Poll<()> {
        while whole || self.come.is_empty() {
            match ready!(self.stream.poll_next(context)) {
                Some(Ok(piece)) if !whole && !piece.prompt.is_empty() => {}
                Some(piece) => self.come.push_back(piece),
                None => break,
            }
        }
        Poll::Ready(())
    }

    fn read(&mut self, piece: &Piece) {
        if let Some(reader) = self.readers.get_mut(piece.index) {
            let rows = reader.push(piece).into_iter().map(|delta| (piece.index, delta_row(delta)));
            self.deltas.extend(rows);
        }
    }
}

enum Step {
    /// Boxed: a piece is many times as large as the others.
    Piece(Box<Piece>),
    Nothing,
    Over,
}

impl Stream {
    pub fn new(stream: TokenStream, answers: usize, model: Model, raised: Raised) -> Stream {
        Stream::with(stream, model, raised, answers, None)
    }

    /// Answers of a conversation, taken apart.
    pub fn of_chat(
        stream: TokenStream,
        answers: usize,
        model: Model,
        raised: Raised,
        chat: &ChatAnswer,
    ) -> Stream {
        Stream::with(stream, model, raised, answers, Some(chat))
    }

    fn with(
        stream: TokenStream,
        model: Model,
        raised: Raised,
        answers: usize,
        chat: Option<&ChatAnswer>,
    ) -> Stream {
        let readers = chat.iter().flat_map(|chat| (0..answers).map(|_| chat.reader())).collect();
        let warnings = chat.map(|chat| chat.warnings.clone()).unwrap_or_default();
        let (come, media) = (VecDeque::new(), stream.media().clone());
        let running = OpenRequest { stream, come, _model: model, readers, deltas: Vec::new() };
        let (stream, process) = (Arc::new(Mutex::new(Some(running))), process::id());
        Stream { stream, answers, media, warnings, raised, process }
    }

    /// The same with more that a user should know.
    pub fn told(mut self, notes: Vec<String>) -> Stream {
        self.warnings.extend(notes);
        self
    }

    /// Refuses to wait for an engine that a forked process has not.
    fn check_process(&self) -> Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let problem =
            "the process was forked after this request was made: load the model in the child process";
        Err(Failure::from(lamina::Error::Runtime(problem.into())))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenRequest>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment for the next piece.
    fn step(&self) -> lamina::Result<Step> {
        let mut lock = self.lock();
        let Some(running) = lock.as_mut() else { return Ok(Step::Over) };
        match running.next_within(POLL) {
            Err(None) => Ok(Step::Over),
            Ok(None) => Ok(Step::Nothing),
            Ok(Some(piece)) => {
                running.read(&piece);
                Ok(Step::Piece(Box::new(piece)))
            }
            Err(Some(e)) => Err(e),
        }
    }

    /// What ended the request: where its processor has raised something, that.
    fn cause(&self, failure: Failure) -> Failure {
        self.raised.take().map_or(failure, Failure::Python)
    }

    /// Collects pieces for a moment; true when all have come.
    fn gather(&self, answers: &mut [Completion]) -> lamina::Result<bool> {
        let begin = Instant::now();
        while begin.elapsed() < POLL {
            match self.step()? {
                Step::Piece(piece) => answers[piece.index].push(*piece),
                Step::Nothing => return Ok(false),
                Step::Over => return Ok(true),
            }
        }
        Ok(false)
    }
}

#[pymethods]
impl Stream {
    /// The next piece; None after the last one.
    fn next(&self, py: Python<'_>) -> Result<Option<PieceRow>> {
        self.check_process()?;
        loop {
            match detached(py, || self.step()).map_err(|e| self.cause(e))? {
                // Logprobs of the prompt are part of whole answers only.
                Step::Piece(piece) if !piece.prompt.is_empty() => {}
                Step::Piece(piece) => return Ok(Some(piece_row(*piece))),
                Step::Over => return Ok(None),
                Step::Nothing => py.check_signals().map_err(Failure::Python)?,
            }
        }
    }

    /// Waits for all answers.
    fn collect(&self, py: Python<'_>) -> Result<Vec<Answer>> {
        self.check_process()?;
        let mut answers = vec![Completion::empty(); self.answers];
        while !detached(py, || self.gather(&mut answers)).map_err(|e| self.cause(e))? {
            py.check_signals().map_err(Failure::Python)?;
        }
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Calls `call` once, from any thread, when the next piece is there, or all are (`whole`): what is read then does not
    /// wait.
    fn watch(&self, call: Py<PyAny>, whole: bool) -> Result<()> {
        self.check_process()?;
        let request = self.stream.clone();
        watch(call, move |context| match &mut *request.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(running) => running.poll(context, whole),
            None => Poll::Ready(()),
        })
    }

    /// What answers of a conversation brought since the last call: the answer's number, and a delta.
    fn take_deltas(&self) -> Vec<(usize, DeltaRow)> {
        self.lock().as_mut().map(|running| std::mem::take(&mut running.deltas)).unwrap_or_default()
    }

    /// What the pictures and sounds of the prompt became, and seconds of encoding.
    fn media(&self) -> (Vec<PictureRow>, Vec<SoundRow>, f64) {
        let pair = |size: PixelSize| (size.width, size.height);
        let seen = |p: &PictureUse| (pair(p.size), pair(p.resized), p.tokens, p.cached);
        let heard = |s: &SoundUse| (s.seconds, s.tokens, s.cached);
        let now = self.media.now();
        (now.pictures.iter().map(seen).collect(), now.sounds.iter().map(heard).collect(), now.encode_seconds)
    }

    /// What was asked for and is not done.
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Cancels what is not done; there are no further pieces.
    fn close(&self, py: Python<'_>) {
        if self.check_process().is_ok() {
            py.detach(|| drop(self.lock().take()));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        discard_shared(self.process, &self.stream);
    }
}

fn piece_row(piece: Piece) -> PieceRow {
    let end = piece.end.map(|(reason, _)| reason.name());
    (piece.index, piece.text, piece.token, piece.forced, piece.logprob, piece.top, end, piece.complete)
}

fn answer(a: Completion) -> Answer {
    let counts = (a.usage.prompt_tokens, a.usage.cached_tokens, a.usage.disk_tokens);
    let t = a.timings;
    let seconds = (t.queue_seconds, t.prefill_seconds, t.decode_seconds);
    let times = (seconds.0, seconds.1, seconds.2, t.preemptions, t.io_wait_seconds, t.context_shifts);
    let end = (a.finish_reason.name(), detail(a.finish_reason));
    let prompt = a.prompt_logprobs.into_iter().map(|s| (s.id, s.logprob, s.top)).collect();
    let Speculation { drafted, accepted, steps, method } = t.speculation;
    let drafts = (steps > 0).then_some((drafted, accepted, steps, method));
    let SamplerState { seed, index, drawn, surprise } = a.sampler;
    let sampler = (seed, index, drawn, surprise);
    (a.text, a.tokens, end, a.complete, a.logprobs, prompt, counts, times, drafts, sampler)
}

fn detail(reason: FinishReason) -> Option<Detail> {
    match reason {
        FinishReason::Stop { by: StopBy::End(token) } => Some(Detail::Token(token)),
        FinishReason::Stop { by: StopBy::Text(index) } => Some(Detail::Text((index,))),
        FinishReason::Stop { by: StopBy::Grammar } => Some(Detail::Limit("grammar")),
        FinishReason::Length { by } => Some(Detail::Limit(by.name())),
        FinishReason::Cancelled => None,
    }
}
