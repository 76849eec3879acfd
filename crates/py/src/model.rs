//! `_lamina.Model`: a loaded model.

use crate::{
    chat::{AnswerArgs, chat_options},
    discard::discard,
    error::{Failure, Result, invalid},
    grammar::{PyGrammar, PyMatcher},
    image::{self, ImageArg},
    info::info,
    options::{LoadTexts, Lora, RequestOptions, load_options, request_options},
    picture_url::PyUrlReader,
    prompt::PromptArg,
    sound::{self, SoundArg},
    stream::Stream,
    vector::Vector,
    wait::{CallWatch, detached, interruptible, located, silent},
};
use lamina::{MediaInputs, Prompt, Rows, Special, Terms};
use lamina_reserve::trim;
use lamina_tools::{PerplexityOptions, divergence, perplexity};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use serde_json::Value;
use std::{
    path::PathBuf,
    process,
    sync::{PoisonError, RwLock},
};

/// See [`Model::divergence`].
type TokenRow = (u32, f64, f64, f64, bool);

/// A model on a device, until it is closed.
#[pyclass(frozen, module = "lamina._lamina")]
pub struct Model {
    model: RwLock<Option<lamina::Model>>,
    /// Process that the engine's thread lives in.
    process: u32,
}

impl Model {
    pub fn get(&self) -> Result<lamina::Model> {
        let runtime = |text: &str| Failure::from(lamina::Error::Runtime(text.into()));
        if self.process != process::id() {
            return Err(runtime(
                "the process was forked after the model was loaded: load it in the child process",
            ));
        }
        let model = self.model.read().unwrap_or_else(PoisonError::into_inner).clone();
        model.ok_or_else(|| runtime("the model is closed: load it again to use it"))
    }

    /// The model for requests with these adapters.
    pub fn with(&self, lora: &Lora) -> Result<lamina::Model> {
        let lora: Vec<_> = lora.iter().map(|(name, scale)| (name, *scale)).collect();
        Ok(self.get()?.with_lora(&lora)?)
    }

    fn take(&self) -> Option<lamina::Model> {
        self.model.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn rows<'py>(
        &self,
        py: Python<'py>,
        prompt: &Prompt,
        rows: Rows,
        lora: &Lora,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        let model = self.with(lora)?;
        let (numbers, tokens) = interruptible(py, silent, |keep| {
            let tokens = model.prompt_tokens(prompt)?;
            Ok((model.rows(&tokens, rows, &mut || keep(0, 0))?, tokens.len()))
        })?;
        let width = numbers.len() / tokens.max(1);
        PyArray1::from_vec(py, numbers).reshape([tokens, width]).map_err(Failure::Python)
    }
}

#[pymethods]
impl Model {
    #[new]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        options: LoadTexts,
        loras: Vec<(String, PathBuf)>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Self> {
        let options = load_options(options, loras)?;
        let tell = |py: Python<'_>, done, total| match &progress {
            Some(f) => f.call1(py, (done, total)).map(drop),
            None => Ok(()),
        };
        let model = interruptible(py, tell, |keep| {
            let (path, options) = located(&path, &options, &CallWatch(keep))?;
            lamina::Model::load_with(Some(&path), &options, keep)
        })?;
        Ok(Model { model: RwLock::new(Some(model)), process: process::id() })
    }

    /// Ends the engine and frees its memory.
    fn close(&self, py: Python<'_>) -> Result<()> {
        // A fork has no engine thread to end, and the lock may be held by a thread that it has not.
        if self.process != process::id() {
            return Ok(());
        }
        let Some(model) = self.take() else { return Ok(()) };
        detached(py, move || {
            model.close();
            drop(model);
            trim();
            Ok(())
        })
    }

    /// Saves what was computed of a text, with any JSON; returns the file's bytes.
    fn save_state(
        &self,
        py: Python<'_>,
        path: PathBuf,
        prompt: PromptArg,
        media: (Vec<ImageArg>, Vec<SoundArg>),
        data: &str,
        lora: Lora,
    ) -> Result<u64> {
        let model = self.with(&lora)?;
        let data: Value = serde_json::from_str(data).map_err(|e| invalid(e.to_string()))?;
        detached(py, move || {
            let (images, sounds) = (image::read(&model, &media.0)?.images, sound::read(&model, &media.1)?);
            let media = MediaInputs { images, sounds };
            let tokens = model.media_tokens(&prompt.0, &media)?;
            model.save_session_with(&path, &tokens, &media, &data)
        })
    }

    /// Reads it back: tokens, JSON, and how many of the tokens need not be computed.
    fn load_state(&self, py: Python<'_>, path: PathBuf, lora: Lora) -> Result<(Vec<u32>, String, usize)> {
        let model = self.with(&lora)?;
        let saved = detached(py, move || model.load_session(&path))?;
        Ok((saved.tokens, saved.data.to_string(), saved.cached_tokens))
    }

    /// A grammar beside an answer. The vocabulary is made ready at the first use.
    fn matcher(&self, py: Python<'_>, grammar: PyRef<'_, PyGrammar>) -> Result<PyMatcher> {
        let (model, grammar) = (self.get()?, grammar.inner().clone());
        Ok(PyMatcher::new(detached(py, move || model.matcher(&grammar))?))
    }

    /// Submits a request.
    fn stream(&self, py: Python<'_>, prompt: PromptArg, options: &Bound<'_, PyDict>) -> Result<Stream> {
        let RequestOptions { mut generate, lora, images, sounds, raised } = request_options(options)?;
        let model = self.with(&lora)?;
        let (stream, notes) = detached(py, || {
            let read = image::read(&model, &images)?;
            generate.images = read.images;
            generate.sounds = sound::read(&model, &sounds)?;
            Ok((model.stream(&prompt.0, &generate)?, read.notes))
        })?;
        Ok(Stream::new(stream, generate.n, model, raised).told(notes))
    }

    /// Submits the next answer of a conversation; messages, tools and variables are JSON.
    #[allow(clippy::too_many_arguments)]
    fn chat(
        &self,
        py: Python<'_>,
        messages: &str,
        template: Option<String>,
        tools: Option<&str>,
        variables: &str,
        split_special_tokens: bool,
        answer: AnswerArgs,
        options: &Bound<'_, PyDict>,
    ) -> Result<Stream> {
        let RequestOptions { generate, lora, images, sounds, raised } = request_options(options)?;
        let model = self.with(&lora)?;
        let (messages, mut chat) = chat_options(messages, template, tools, variables, true)?;
        chat.no_split_special_tokens = !split_special_tokens;
        answer.apply(&mut chat);
        let (stream, prepared, notes) = detached(py, || {
            let read = image::read(&model, &images)?;
            chat.images = read.images;
            chat.sounds = sound::read(&model, &sounds)?;
            let mut prepared = model.prepare_chat(&messages, &chat)?;
            let stream = model.stream_chat(&mut prepared, &generate)?;
            Ok((stream, prepared, read.notes))
        })?;
        Ok(Stream::of_chat(stream, generate.n, model, raised, &prepared.answer).told(notes))
    }

    /// Name of the format in which the model calls tools.
    fn chat_format(&self) -> Result<&'static str> {
        Ok(self.get()?.chat_format(true)?.name)
    }

    /// The text that a conversation becomes; messages, tools and variables are JSON.
    fn apply_chat_template(
        &self,
        py: Python<'_>,
        messages: &str,
        template: Option<String>,
        tools: Option<&str>,
        variables: &str,
        add_generation_prompt: bool,
    ) -> Result<String> {
        let model = self.get()?;
        let (messages, chat) = chat_options(messages, template, tools, variables, add_generation_prompt)?;
        detached(py, || model.apply_chat_template(&messages, &chat))
    }

    /// Tokens of a text.
    fn tokenize(&self, py: Python<'_>, text: &str, special: bool) -> Result<Vec<u32>> {
        let (model, special) = (self.get()?, Special { add: special, parse: special });
        detached(py, || model.tokenize(text, special))
    }

    /// Text of tokens.
    fn detokenize(&self, py: Python<'_>, ids: PromptArg) -> Result<String> {
        let (model, Prompt::Tokens(ids)) = (self.get()?, ids.0) else {
            return Err(invalid("detokenize takes token ids".into()));
        };
        detached(py, || model.detokenize(&ids))
    }

    /// Tokens that a picture takes.
    fn image_tokens(&self, py: Python<'_>, given: ImageArg) -> Result<usize> {
        let model = self.get()?;
        detached(py, || image::one(&model, given).and_then(|picture| model.image_tokens(&picture)))
    }

    /// Rows of a picture behind the projector.
    fn image_rows<'py>(&self, py: Python<'py>, given: ImageArg) -> Result<Bound<'py, PyArray2<f32>>> {
        let model = self.get()?;
        let rows = detached(py, || image::one(&model, given).and_then(|picture| model.image_rows(&picture)))?;
        matrix(py, &rows.rows, rows.width)
    }

    /// Tokens that a sound takes.
    fn sound_tokens(&self, py: Python<'_>, given: SoundArg) -> Result<usize> {
        let model = self.get()?;
        detached(py, || sound::one(&model, given).and_then(|sound| model.sound_tokens(&sound)))
    }

    /// Rows of a sound behind the projector.
    fn sound_rows<'py>(&self, py: Python<'py>, given: SoundArg) -> Result<Bound<'py, PyArray2<f32>>> {
        let model = self.get()?;
        let rows = detached(py, || sound::one(&model, given).and_then(|sound| model.sound_rows(&sound)))?;
        matrix(py, &rows.rows, rows.width)
    }

    /// The bytes of a picture or a sound at an address.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        reader: PyRef<'_, PyUrlReader>,
        url: &str,
    ) -> Result<Bound<'py, PyBytes>> {
        let (model, reader) = (self.get()?, &*reader);
        let bytes = detached(py, || reader.read(url, model.most_media_bytes()?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Logits of every position.
    fn logits<'py>(
        &self,
        py: Python<'py>,
        prompt: PromptArg,
        lora: Lora,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        self.rows(py, &prompt.0, Rows::Logits, &lora)
    }

    /// Residual rows of every position.
    fn hidden<'py>(
        &self,
        py: Python<'py>,
        prompt: PromptArg,
        layer: isize,
        lora: Lora,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        self.rows(py, &prompt.0, Rows::Hidden(layer), &lora)
    }

    /// One vector for a text.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        prompt: PromptArg,
        lora: Lora,
    ) -> Result<Bound<'py, PyArray1<f32>>> {
        let model = self.with(&lora)?;
        let vector = interruptible(py, silent, |keep| model.embed(&prompt.0, &mut || keep(0, 0)))?;
        Ok(PyArray1::from_vec(py, vector))
    }

    /// Submits a text for a vector.
    fn submit_embedding(&self, py: Python<'_>, prompt: PromptArg, lora: Lora) -> Result<Vector> {
        let model = self.with(&lora)?;
        let sent = detached(py, || model.submit_embedding(&prompt.0, Terms::default()))?;
        Ok(Vector::new(sent, model))
    }

    /// Score of each document by a reranker.
    fn rerank<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        documents: Vec<String>,
        lora: Lora,
    ) -> Result<Bound<'py, PyArray1<f32>>> {
        let model = self.with(&lora)?;
        let scores = interruptible(py, silent, |keep| model.rerank(query, &documents, &mut || keep(0, 0)))?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// Sum of the logprobs of each continuation behind its context, and whether each of its tokens is the likeliest.
    fn score(
        &self,
        py: Python<'_>,
        pairs: Vec<(PromptArg, PromptArg)>,
        lora: Lora,
    ) -> Result<Vec<(f64, bool)>> {
        let model = self.with(&lora)?;
        let pairs: Vec<_> =
            pairs.into_iter().map(|(context, continuation)| (context.0, continuation.0)).collect();
        let scores = interruptible(py, silent, |keep| model.score(&pairs, &mut || keep(0, 0)))?;
        Ok(scores.into_iter().map(|score| (score.logprob, score.greedy)).collect())
    }

    /// Perplexity, mean negative log-likelihood, tokens and standard error.
    fn perplexity(
        &self,
        py: Python<'_>,
        prompt: PromptArg,
        context: usize,
        stride: usize,
        lora: Lora,
    ) -> Result<(f64, f64, usize, f64)> {
        let (model, options) = (self.with(&lora)?, PerplexityOptions { context, stride, skip: 0 });
        let p = interruptible(py, silent, |keep| {
            perplexity(&model, &prompt.0, options, &mut |done, all| keep(done as u64, all as u64))
        })?;
        Ok((p.ppl, p.nll, p.tokens, p.stderr))
    }

    /// Figures as JSON, and of each token: its id, KL divergence, both logprobs, and whether both tops are the same.
    fn divergence(
        &self,
        py: Python<'_>,
        base: PyRef<'_, Model>,
        prompt: PromptArg,
        context: usize,
        lora: Lora,
    ) -> Result<(String, Vec<TokenRow>)> {
        let (base, model) = (base.get()?, self.with(&lora)?);
        let options = PerplexityOptions { context, stride: context, skip: 0 };
        let found = interruptible(py, silent, |keep| {
            divergence(&base, &model, &prompt.0, options, &mut |done, all| keep(done as u64, all as u64))
        })?;
        let rows = found.tokens.iter().map(|t| (t.token, t.kl, t.base_logprob, t.logprob, t.same_top));
        Ok((found.figures().json().to_string(), rows.collect()))
    }

    /// Configuration under Hugging Face names, as JSON.
    fn config(&self) -> Result<String> {
        Ok(self.get()?.info().config.to_string())
    }

    /// Keywords of `ModelInfo`.
    fn info<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let model = self.get()?;
        info(py, &model).map_err(Failure::Python)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let model = self.model.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(model) = model {
            discard(self.process, model);
        }
    }
}

/// Rows of so many numbers as an array.
fn matrix<'py>(py: Python<'py>, rows: &[f32], width: usize) -> Result<Bound<'py, PyArray2<f32>>> {
    PyArray1::from_slice(py, rows).reshape([rows.len() / width.max(1), width]).map_err(Failure::Python)
}
