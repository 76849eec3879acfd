//! What shares a machine with a model: a smaller one that guesses for it, or heads. Loading and forecasts ask here alone.

use crate::{
    draft::{DraftSource, HeadChoice},
    error::{Error, Result},
    headers::{OpenedModel, check_plan},
    heads::{FoundHead, PlannedHead, SEQUENCES},
    model_plan::keep,
    options::LoadOptions,
    vocab,
};
use lamina_plan::{Backend, Memory};
use lamina_planner::{DevicePlacement, HeadSizes, ModelHeaders, Neighbours};
use lamina_store::Checkpoint;
use lamina_tokenize::Tokenizer;

/// What of the options guesses by computing, before anything of it is loaded.
pub(crate) struct DraftFiles<'a> {
    source: Option<&'a DraftSource>,
    folder: Option<Checkpoint>,
    tokenizer: Option<Tokenizer>,
}

impl<'a> DraftFiles<'a> {
    /// What `options` name, with the tokenizer of a draft model.
    ///
    /// # Errors
    /// When nothing of that name is there, or it is broken.
    pub fn open(options: &'a LoadOptions) -> Result<DraftFiles<'a>> {
        let source = options.draft.as_ref();
        let path = source.map(DraftSource::model).transpose()?.flatten();
        let folder = path.map(Checkpoint::open).transpose()?;
        let mut files = DraftFiles { source, folder, tokenizer: None };
        files.tokenizer = files.model().map(|(ck, _)| vocab::tokenizer(ck)).transpose()?.flatten();
        Ok(files)
    }

    /// Heads.
    pub fn heads(&self) -> HeadChoice<'_> {
        self.source.map_or(HeadChoice::None, |source| source.heads(self.folder.as_ref()))
    }

    /// A draft model, and its tokenizer.
    pub fn model(&self) -> Option<(&Checkpoint, Option<Tokenizer>)> {
        let ck = self.folder.as_ref().filter(|_| matches!(self.heads(), HeadChoice::None))?;
        Some((ck, self.tokenizer.clone()))
    }
}

/// How a draft model beside one with `options` is loaded on a handle of its `backend`.
pub(crate) fn draft_options(options: &LoadOptions, backend: &dyn Backend) -> LoadOptions {
    // Its cache is small beside the model's: an eighth of what is free, or a quarter of what was asked for.
    let free = backend.memory().map(|m| m.free / 8);
    let kv_memory = options.kv_memory.map(|bytes| bytes / 4).into_iter().chain(free).min();
    let plain =
        LoadOptions { threads: options.threads, batch_rows: options.batch_rows, ..LoadOptions::default() };
    LoadOptions { kv_memory, device: options.device, ..plain }
}

/// The handle on `backend` that a draft model is loaded on.
///
/// # Errors
/// When the backend holds one model only.
pub(crate) fn draft_backend(backend: &dyn Backend) -> Result<Box<dyn Backend>> {
    backend.handle().ok_or_else(|| {
        Error::Unsupported(format!("a draft model on {}: it holds one model only", backend.name()))
    })
}

/// What shares a machine with a model.
#[derive(Clone, Default)]
pub(crate) struct Company<'a> {
    /// Its tokenizer, where that was read before.
    pub tokenizer: Option<Tokenizer>,
    /// Bytes that others take.
    pub bytes: u64,
    /// What could be had before any of them was loaded; none: what can be had now.
    pub memory: Option<Memory>,
    /// Heads that guess its tokens.
    pub heads: HeadChoice<'a>,
    /// What of the model lies on a device.
    pub device: Option<DevicePlacement>,
    /// Longest text of those that it guesses for, where it is a draft model: its cache has room for no longer ones.
    pub longest: Option<usize>,
}

impl Company<'_> {
    /// The tokenizer of the model in `ck`.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn tokenizer_of(&self, ck: &Checkpoint) -> Result<Option<Tokenizer>> {
        match &self.tokenizer {
            Some(read) => Ok(Some(read.clone())),
            None => vocab::tokenizer(ck),
        }
    }

    /// The headers of `model`, whose cache is planned by its context. A draft model guesses one token at a time for each of a
    /// few sequences.
    pub fn bounded<'a>(&self, model: ModelHeaders<'a>) -> ModelHeaders<'a> {
        let Some(longest) = self.longest else { return model };
        ModelHeaders { context: model.context.min(longest), logits: Some(SEQUENCES), ..model }
    }

    /// What planning needs to know of it.
    pub fn neighbours(&self) -> Neighbours {
        Neighbours { taken: self.bytes, memory: self.memory, device: self.device.clone() }
    }
}

/// What a head takes beside `model` on `backend`.
///
/// # Errors
/// When the backend does not run it, or a tensor is missing or has another shape.
pub(crate) fn head_sizes(
    found: &FoundHead<'_>,
    model: &OpenedModel<'_>,
    backend: &dyn Backend,
    options: &LoadOptions,
) -> Result<HeadSizes> {
    let weights = found.weights().keeping(keep(options));
    let planned = PlannedHead::new(found, &weights, &model.plan, options.dtype);
    planned.plans().iter().try_for_each(|plan| check_plan(backend, plan))?;
    planned.sizes(backend, (&model.plan, &model.from), options.kv_dtype)
}
