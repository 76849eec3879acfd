//! A loaded model: any number of threads may use it at once, and their requests are batched.

use crate::{
    Error, Result,
    generate::{Completion, GenerateOptions, Prompt},
    media_use::MediaUsed,
    open::open,
    recent::Recent,
    tools::{ChatGrammar, GrammarKey},
};
use lamina_engine::{
    EngineError, EventLog, Generation, Handle, NumberRows, Resume, Service, Snapshot, Task, TraceDetail,
    sample::Breakers,
};
use lamina_grammar::{GrammarError, Vocabulary};
use lamina_load::{
    LoadOptions, Loaded, ModelInfo, Progress, lora_scales,
    vision::{PictureEncoder, SoundEncoder},
};
use lamina_plan::Plan;
use lamina_tokenize::{LongText, Special, Tokenizer};
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

/// A model on a device. Clones are the same model.
#[derive(Clone)]
pub struct Model {
    pub(crate) shared: Arc<Shared>,
    /// Scale of each adapter in the requests that are made through this value.
    pub(crate) scales: Arc<[f32]>,
}

/// What all clones of a model share.
pub(crate) struct Shared {
    pub(crate) service: Service,
    tokenizer: Option<Tokenizer>,
    end_tokens: Arc<[u32]>,
    loras: Vec<String>,
    pub(crate) info: ModelInfo,
    /// What turns pictures into rows, where the model sees.
    pub(crate) pictures: Option<PictureEncoder>,
    /// What turns sounds into rows, where the model hears.
    pub(crate) sounds: Option<SoundEncoder>,
    /// DRY's sequence breakers by their strings: finding their tokens costs a pass over the vocabulary.
    breakers: Recent<Vec<String>, Arc<Breakers>>,
    /// Grammars of conversations by what they were made of: agents send the same tools again and again.
    pub(crate) chat_grammars: Recent<GrammarKey, ChatGrammar>,
    /// The tokenizer's vocabulary for grammars: making it ready costs a pass over all tokens.
    vocabulary: OnceLock<std::result::Result<Vocabulary, GrammarError>>,
}

impl Model {
    /// Loads the model at `path`, or the one inside the package.
    ///
    /// # Errors
    /// When it cannot be found, read, supported, or held in memory.
    pub fn load(path: Option<&Path>, options: LoadOptions) -> Result<Model> {
        Model::load_with(path, &options, &|_, _| true)
    }

    /// [`Model::load`] with progress.
    ///
    /// # Errors
    /// As for [`Model::load`]; also when `progress` gives up.
    pub fn load_with(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Model> {
        let loaded = open(path, options, progress)?;
        let Loaded { engine, tokenizer, end_tokens, loras, info, pictures, sounds } = loaded;
        let service = Service::start(engine)
            .map_err(|e| Error::OutOfMemory(format!("no thread for the engine: {e}")))?;
        let (breakers, chat_grammars, vocabulary) = (Recent::default(), Recent::default(), OnceLock::new());
        let shared = Shared {
            service,
            tokenizer,
            end_tokens,
            loras,
            info,
            pictures,
            sounds,
            breakers,
            chat_grammars,
            vocabulary,
        };
        Ok(Model { shared: Arc::new(shared), scales: Arc::default() })
    }

    /// The same model for requests with adapters: those of these names, each at its scale (1 is as
    /// trained, more than one add up), and no others. Nothing is loaded anew; requests with different adapters are
    /// batched.
    ///
    /// ```no_run
    /// # let prompt = lamina::Prompt::Text("Once upon a time".into());
    /// let options = lamina::LoadOptions { loras: vec![("pirate".into(), "pirate-lora".into())], ..Default::default() };
    /// let model = lamina::Model::load(Some("model.gguf".as_ref()), options)?;
    /// let out = model.with_lora(&[("pirate", 0.8)])?.generate(&prompt, &lamina::GenerateOptions::default())?;
    /// # Ok::<(), lamina::Error>(())
    /// ```
    ///
    /// # Errors
    /// When no adapter of a name was loaded, one is named twice, or a number is not finite.
    pub fn with_lora<N: AsRef<str>>(&self, lora: &[(N, f32)]) -> Result<Model> {
        let scales = lora_scales(&self.shared.loras, lora)?;
        Ok(Model { shared: self.shared.clone(), scales })
    }

    /// Names of the adapters that were loaded.
    pub fn loras(&self) -> &[String] {
        &self.shared.loras
    }

    /// Sizes and names.
    pub fn info(&self) -> &ModelInfo {
        &self.shared.info
    }

    /// The tokenizer, where the model has one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.shared.tokenizer.as_ref()
    }

    /// The tokenizer, for requests that need text.
    ///
    /// # Errors
    /// When the model has none.
    pub fn need_tokenizer(&self) -> Result<&Tokenizer> {
        let missing =
            || Error::InvalidRequest("this model has no tokenizer: give token ids instead of text".into());
        self.shared.tokenizer.as_ref().ok_or_else(missing)
    }

    /// Where the vocabulary for grammars is kept.
    pub(crate) fn once_vocabulary(&self) -> &OnceLock<std::result::Result<Vocabulary, GrammarError>> {
        &self.shared.vocabulary
    }

    /// Tokens that end an answer.
    pub fn end_tokens(&self) -> &[u32] {
        &self.shared.end_tokens
    }

    /// Tokens of a text. `special` reads special tokens in the text as such and adds the beginning token.
    ///
    /// # Errors
    /// When the model has no tokenizer, or there is no memory for a long text.
    pub fn tokenize(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        Ok(self.tokenizer_with_room()?.encode(text, special)?)
    }

    /// The same in parts, for callers that have other things to do between them.
    ///
    /// # Errors
    /// As for [`Model::tokenize`].
    pub fn long_text(&self, text: &str, special: Special) -> Result<LongText> {
        Ok(LongText::new(self.tokenizer_with_room()?, text, special)?)
    }

    fn tokenizer_with_room(&self) -> Result<&Tokenizer> {
        // An earlier request may have spent what is kept back, and only the engine's thread has been told.
        match lamina_reserve::whole() {
            true => self.need_tokenizer(),
            false => {
                Err(Error::OutOfMemory("there is no memory to tokenize a text: end other programs".into()))
            }
        }
    }

    /// Text of tokens, without special ones.
    ///
    /// # Errors
    /// When the model has no tokenizer or a token is unknown.
    pub fn detokenize(&self, tokens: &[u32]) -> Result<String> {
        Ok(self.need_tokenizer()?.decode(tokens)?)
    }

    /// Sends a prompt to the engine. Its events can be waited for or polled; dropping the handle cancels the request.
    ///
    /// # Errors
    /// When the options cannot be followed, as many requests wait as may, or the engine has ended.
    pub fn submit(
        &self,
        tokens: Vec<u32>,
        options: &GenerateOptions,
    ) -> std::result::Result<Handle, EngineError> {
        Ok(self.submit_media(tokens, options)?.0)
    }

    /// [`Model::submit`], and what the pictures and sounds of the request became: which changes while they are encoded.
    ///
    /// # Errors
    /// As for [`Model::submit`].
    pub fn submit_media(
        &self,
        tokens: Vec<u32>,
        options: &GenerateOptions,
    ) -> std::result::Result<(Handle, MediaUsed), EngineError> {
        let text = |e: Error| EngineError::Text(e.to_string());
        let task = self.task(options).map_err(text)?;
        let (rows, used) = self.media_rows(&tokens, &options.into()).map_err(|e| match e {
            Error::OutOfMemory(why) => EngineError::OutOfMemory(why),
            Error::DeviceLost(why) => EngineError::DeviceLost(why),
            Error::Runtime(why) => EngineError::Runtime(why),
            e => text(e),
        })?;
        Ok((self.send(tokens, rows, task, options)?, used))
    }

    pub(crate) fn task(&self, options: &GenerateOptions) -> Result<Task> {
        match &options.beams {
            None => Ok(Task::Generate(Box::new(self.generation(options)?))),
            Some(beams) => self.search(options, beams, Box::new(|_| {})),
        }
    }

    pub(crate) fn send(
        &self,
        mut tokens: Vec<u32>,
        rows: Vec<NumberRows>,
        task: Task,
        options: &GenerateOptions,
    ) -> std::result::Result<Handle, EngineError> {
        tokens.extend(options.resume.iter().flat_map(|r| &r.tokens));
        self.shared.service.submit_rows(tokens, rows, self.scales.clone(), task, options.terms.clone())
    }

    /// The options as the engine reads them.
    pub(crate) fn generation(&self, options: &GenerateOptions) -> Result<Generation> {
        Ok(Generation {
            max_tokens: options.max_tokens,
            min_tokens: options.min_tokens,
            params: options.sampling.clone(),
            prompt_logprobs: options.sampling.logprobs.count.filter(|_| options.echo).map(|n| n as usize),
            processor: options.processor.clone(),
            scored_from: 0,
            breakers: self.breakers(options)?,
            constraint: self.constraint(options)?,
            speculate: options.speculate.clone(),
            end_tokens: self.ends(options),
            never: self.soft_tokens(),
            stop: options.stop.clone(),
            include_stop: options.include_stop,
            n: options.n,
            resume: options.resume.as_ref().map(|r| Resume { answered: r.tokens.len(), sampler: r.sampler }),
            context_shift: options.context_shift,
            compress: options.compress,
            progress: options.progress,
            tokenizer: self.shared.tokenizer.clone(),
        })
    }

    /// Why the engine can serve no more; none while it can.
    pub fn fault(&self) -> Option<EngineError> {
        self.shared.service.fault()
    }

    /// Tokens that end an answer.
    pub(crate) fn ends(&self, options: &GenerateOptions) -> Arc<[u32]> {
        match (options.ignore_eos, options.stop_tokens.as_slice()) {
            (false, []) => self.shared.end_tokens.clone(),
            (true, more) => more.into(),
            (false, more) => [&*self.shared.end_tokens, more].concat().into(),
        }
    }

    /// All answers to a prompt.
    ///
    /// # Errors
    /// What ended the request.
    pub fn generate(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<Completion>> {
        let mut answers = vec![];
        let stream = self.stream(prompt, options)?;
        let media = stream.media().clone();
        for piece in stream {
            let piece = piece?;
            // The number that was asked for is sound once something comes of it.
            answers.resize_with(answers.len().max(options.n), Completion::empty);
            answers[piece.index].push(piece);
        }
        let used = media.now();
        answers.iter_mut().for_each(|a| a.media = used.clone());
        if options.echo {
            let text = self.echo_text(prompt)?;
            answers.iter_mut().for_each(|a| a.text.insert_str(0, &text));
        }
        Ok(answers)
    }

    /// Text that `echo` puts before an answer.
    ///
    /// # Errors
    /// When tokens cannot become text.
    pub fn echo_text(&self, prompt: &Prompt) -> Result<String> {
        match prompt {
            Prompt::Text(text) => Ok(text.clone()),
            Prompt::Tokens(tokens) => self.detokenize(tokens),
        }
    }

    /// Records what the engine does from now on, for all requests, in `detail`; none stops it. Returns what was recorded
    /// before. No bit of an answer changes.
    pub fn record(&self, detail: Option<TraceDetail>) -> Option<EventLog> {
        self.shared.service.record(detail)
    }

    /// A copy of what was recorded so far; none where nothing is.
    pub fn recorded(&self) -> Option<EventLog> {
        self.shared.service.recorded()
    }

    /// The plan that its machine runs; none where the engine has ended.
    pub fn machine_plan(&self) -> Option<Plan> {
        self.shared.service.plan()
    }

    /// What the engine does: sequences, pages, counters. Never waits for a step.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.service.snapshot()
    }

    /// Calls `done` once all that is computed by now lies in the folder of [`LoadOptions::cache_dir`], where other processes find
    /// it. It is dropped, and not called, where there is no such folder, its disk refuses, or the engine ends before.
    pub fn when_kept(&self, done: impl FnOnce() + Send + 'static) {
        self.shared.service.when_kept(done);
    }

    /// Ends the engine and frees its memory; later requests fail.
    pub fn close(&self) {
        self.shared.service.close();
        self.shared.pictures.iter().for_each(|encoder| encoder.close());
        self.shared.sounds.iter().for_each(|encoder| encoder.close());
    }

    /// Tokens of a prompt, with the beginning token before a text.
    ///
    /// # Errors
    /// When text is given to a model without a tokenizer.
    pub fn prompt_tokens(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        match prompt {
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Text(text) => {
                let mut tokens = self.tokenize(text, Special::ADD)?;
                // An empty text still has a beginning.
                if tokens.is_empty() {
                    tokens.extend(self.need_tokenizer()?.bos());
                }
                Ok(tokens)
            }
        }
    }

    fn breakers(&self, options: &GenerateOptions) -> Result<Arc<Breakers>> {
        let dry = &options.sampling.dry;
        let (Some(tokenizer), true) = (&self.shared.tokenizer, dry.multiplier != 0.0) else {
            return Ok(Arc::default());
        };
        if let Some(known) = self.shared.breakers.get(&dry.breakers) {
            return Ok(known);
        }
        let vocab =
            (0..tokenizer.vocab_size() as u32).filter_map(|id| Some((id, tokenizer.token_bytes(id)?)));
        let encode = |text: &str| tokenizer.encode(text, Special::NONE).unwrap_or_default();
        let found = Arc::new(Breakers::find(&dry.breakers, vocab, encode)?);
        self.shared.breakers.put(dry.breakers.clone(), found.clone());
        Ok(found)
    }
}
