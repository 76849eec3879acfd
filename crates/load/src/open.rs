//! From a checkpoint to an engine: family, plan, what is refused, cache, weights.

use crate::{
    built::Built,
    cache_on_disk::CacheOnDisk,
    draft::{DraftSource, HeadChoice, draft_model, names},
    error::{Error, Result},
    heads::{PlannedHead, ReadyHead, UploadedModel},
    identity::identity,
    info::ModelInfo,
    kv_swap::open_swap,
    memory::CachePlan,
    options::LoadOptions,
    planned::{keep, planned},
    pooling::pooling,
    sizes::{ModelSizes, OpenedModel},
    stream_info::StreamInfo,
    stream_load::{StreamedModel, load_streamed},
    uploads::{Progress, WeightSource, bytes_per_token, upload},
    vocab,
};
use lamina_arch::{Family, Weights};
use lamina_disk::PageStore;
use lamina_engine::{Engine, InTurn, MOST_DRAFTS};
use lamina_plan::{Backend, BackendError, BackendWeight, Limits, Plan, Runner, Step};
use lamina_store::Checkpoint;
use lamina_stream::StreamedMachine;
use lamina_tokenize::Tokenizer;
use std::sync::Arc;

/// A model that is ready to run.
pub struct Loaded {
    /// Runs requests.
    pub engine: Engine,
    /// Text to tokens and back, where the model has a tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that end an answer.
    pub end_tokens: Arc<[u32]>,
    /// Names of the adapters, in their order.
    pub loras: Vec<String>,
    /// Sizes and names.
    pub info: ModelInfo,
}

/// Builds the engine of the model in `ck` on `backend`. Whatever can be refused is refused before a weight is read.
///
/// # Errors
/// When the model is broken, not supported by the backend, or cannot be held in its memory; when `progress` gives up.
pub fn open_on(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    if backend.capabilities().shares_memory {
        options.placement.without_device(&backend.about().device)?;
    }
    open_sized(ck, options, backend, None, progress)
}

/// The same with a cache of which a part lies on a device.
pub(crate) fn open_sized(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    cache: Option<&CachePlan>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    if let Some(w) = options.draft_width.filter(|&w| w > MOST_DRAFTS) {
        return Err(Error::InvalidRequest(format!(
            "draft_width is {w}, but must be from 0 to {MOST_DRAFTS}"
        )));
    }
    let (store, swap) = (open_store(options)?, open_swap(options.kv_swap, &options.stream)?);
    let beside = options.draft.as_ref().map(DraftSource::model).transpose()?.flatten();
    let beside = beside.map(Checkpoint::open).transpose()?;
    let heads = options.draft.as_ref().map_or(HeadChoice::None, |d| d.heads(beside.as_ref()));
    let draft = match (&beside, heads) {
        (Some(ck), HeadChoice::None) => Some(build_draft(ck, options, &*backend)?),
        _ => None,
    };
    let beside = Beside { bytes: draft.as_ref().map_or(0, |d| d.bytes), heads, cache };
    let mut model = build(ck, options, backend, beside, progress)?;
    let mut computing: Vec<_> = model.head.take().map(ReadyHead::drafter).into_iter().collect();
    if let Some(draft) = draft {
        computing.push(draft_model(&model, draft)?);
    }
    let drafters = options.draft.as_ref().map(|source| source.drafters(computing)).unwrap_or_default();
    let info = ModelInfo { draft: names(&drafters), ..model.info };
    let mut engine = Engine::with_policy(
        model.step,
        model.context,
        options.reuse_prefixes,
        options.objective.of(options.policy),
    )
    .identified(model.identity)
    .drafting(drafters, options.draft_width);
    if let Some(store) = store {
        engine = engine.persisted(store);
    }
    if let Some(swap) = swap {
        engine = engine.swapping(swap, options.kv_swap.choice)?;
    }
    let Built { tokenizer, end_tokens, loras, .. } = model;
    Ok(Loaded { engine, tokenizer, end_tokens, loras, info })
}

/// The cache on disk that was asked for. What goes wrong in it later is a line on stderr, and no error of a request.
fn open_store(options: &LoadOptions) -> Result<Option<Arc<PageStore>>> {
    let Some(folder) = &options.cache_dir else { return Ok(None) };
    let store = PageStore::open(folder, options.cache_disk, |line| eprintln!("lamina: {line}"));
    Ok(Some(Arc::new(store.map_err(|e| Error::InvalidRequest(e.to_string()))?)))
}

/// The draft model in `ck`, on the same device and threads.
fn build_draft(ck: &Checkpoint, options: &LoadOptions, backend: &dyn Backend) -> Result<Built> {
    let Some(own) = backend.handle() else {
        let what = format!("a draft model on {}: it holds one model only", backend.name());
        return Err(Error::Unsupported(what));
    };
    // Its cache is small beside the model's: an eighth of what is free, or a quarter of what was asked for.
    let free = backend.memory().map(|m| m.free / 8);
    let kv_memory = options.kv_memory.map(|bytes| bytes / 4).into_iter().chain(free).min();
    let plain =
        LoadOptions { threads: options.threads, batch_rows: options.batch_rows, ..LoadOptions::default() };
    let options = LoadOptions { kv_memory, device: options.device, ..plain };
    build(ck, &options, own, Beside::default(), &|_, _| true)
}

/// What stands beside a model.
#[derive(Default)]
struct Beside<'a> {
    /// Bytes that others take.
    bytes: u64,
    /// Heads that guess its tokens.
    heads: HeadChoice<'a>,
    /// Its cache, where a part of that lies on a device.
    cache: Option<&'a CachePlan>,
}

/// Puts the model in `ck` on `backend`.
fn build(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    beside: Beside<'_>,
    progress: Progress<'_>,
) -> Result<Built> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let (plan, loras) = planned(ck, (family, &spec), &weights, options, &*backend)?;
    let tokenizer = vocab::tokenizer(ck)?;
    check_plan(&*backend, &plan)?;
    let found = beside.heads.find(ck, family, &spec)?;
    let head_weights = found.as_ref().map(|head| head.weights().keeping(keep(options)));
    let head = found.as_ref().zip(head_weights.as_ref());
    let head = head.map(|(found, weights)| PlannedHead::new(found, weights, &plan, options.dtype));
    head.iter().flat_map(PlannedHead::plans).try_for_each(|plan| check_plan(&*backend, plan))?;
    let from = WeightSource { weights: &weights, dtype: options.dtype };
    let opened =
        OpenedModel { plan: &plan, from: &from, loras: &loras, head: head.as_ref(), context: spec.context };
    let sizes = ModelSizes::of(&opened, &*backend, options, (beside.bytes, beside.cache))?;
    let limits = sizes.limits(&opened);
    // Before weights are read: a disk that is too full is known at once.
    let on_disk = CacheOnDisk::open(&*backend, &plan, &limits, options)?;
    let (placed, bytes) = PlacedWeights::load(&*backend, &opened, ck, &sizes, options, progress)?;
    let about = backend.about();
    let identity = identity(ck, options, &backend.identity(), &loras);
    let known = ModelInfo {
        bytes_per_token: bytes_per_token(&plan, &bytes),
        threads: about.threads,
        isa: about.kernels,
        device: about.device,
        notes: notes(ck, &weights, tokenizer.as_ref(), &sizes.cache, spec.context),
        stream: placed.info(),
        pooling: pooling(ck),
        ..ModelInfo::of(ck, family, &spec)
    };
    let mut info = sizes.told(known, &plan, options);
    info.notes.extend(info.load_notes());
    info.notes.extend(on_disk.as_ref().map(CacheOnDisk::note));
    let model = UploadedModel { plan: &plan, weights: placed.resident(), source: &from };
    let pages = (sizes.head_pages(), options.kv_dtype);
    let head = head.map(|head| head.load(&*backend, model, &limits, pages)).transpose()?;
    let bytes = sizes.bytes() - info.stream.as_ref().map_or(0, StreamInfo::saved_bytes);
    Ok(Built {
        step: Box::new(InTurn::new(placed.step(backend, plan, limits, on_disk)?)),
        head,
        context: sizes.cache.context,
        end_tokens: vocab::end_tokens(ck, tokenizer.as_ref()).into(),
        tokenizer,
        info,
        loras: loras.into_names(),
        identity,
        bytes,
    })
}

/// Where weights are.
enum PlacedWeights {
    /// All in memory.
    Resident(Vec<BackendWeight>),
    /// Some on disk.
    Streamed(Box<StreamedModel>),
}

impl PlacedWeights {
    /// Puts the weights where `sizes` says; tells the bytes of each.
    fn load(
        backend: &dyn Backend,
        opened: &OpenedModel<'_>,
        ck: &Checkpoint,
        sizes: &ModelSizes,
        options: &LoadOptions,
        progress: Progress<'_>,
    ) -> Result<(Self, Vec<u64>)> {
        let meter = (ck.total_bytes(), progress);
        Ok(match &sizes.stream {
            None => {
                let (weights, bytes) = upload(backend, opened.from, opened.loras, opened.plan, meter)?;
                (PlacedWeights::Resident(weights), bytes)
            }
            Some(stream) => {
                let (model, bytes) = load_streamed(backend, opened, ck, stream, &options.stream, meter)?;
                (PlacedWeights::Streamed(Box::new(model)), bytes)
            }
        })
    }

    fn info(&self) -> Option<StreamInfo> {
        match self {
            PlacedWeights::Resident(_) => None,
            PlacedWeights::Streamed(model) => Some(model.info.clone()),
        }
    }

    /// Weights of the whole plan; none where some are streamed.
    fn resident(&self) -> &[BackendWeight] {
        match self {
            PlacedWeights::Resident(weights) => weights,
            PlacedWeights::Streamed(_) => &[],
        }
    }

    /// What runs steps: the machine of the backend, and around it what brings pages and weights from disk. `plan` is that of
    /// the whole model.
    fn step(
        self,
        backend: Box<dyn Backend>,
        plan: Plan,
        limits: Limits,
        cache: Option<CacheOnDisk>,
    ) -> Result<Box<dyn Step>> {
        let selects_cells = backend.capabilities().selects_cells;
        let (plan, weights, streamed) = match self {
            PlacedWeights::Resident(weights) => (plan, weights, None),
            PlacedWeights::Streamed(model) => {
                let (plan, weights, streamed) = model.parts()?;
                (plan, weights, Some(streamed))
            }
        };
        let mut machine = backend.machine(&plan, weights, &limits)?;
        if let Some(cache) = cache {
            machine = cache.around(machine, &plan)?;
        }
        if let Some(streamed) = streamed {
            machine = Box::new(StreamedMachine::new(machine, &plan, streamed));
        }
        Ok(Box::new(Runner::on(machine, plan, limits).selecting_cells(selects_cells)))
    }
}

/// Refuses a plan that the backend does not run.
pub(crate) fn check_plan(backend: &dyn Backend, plan: &Plan) -> Result<()> {
    match backend.refusal(plan) {
        Some(what) => Err(BackendError::Unsupported { backend: backend.name(), what }.into()),
        None => Ok(()),
    }
}

/// What a user should know and no error says.
fn notes(
    ck: &Checkpoint,
    weights: &Weights<'_>,
    tokenizer: Option<&Tokenizer>,
    cache: &CachePlan,
    own: usize,
) -> Vec<String> {
    let context = cache.context;
    let mut notes: Vec<String> = tokenizer.map(|t| t.warnings().to_vec()).unwrap_or_default();
    if context > own {
        notes.push(format!(
            "the context of {context} tokens is beyond the {own} that the model was made for: answers there may be poor"
        ));
    }
    if let Some(from) = cache.cut_from {
        notes.push(format!("the context is cut from {from} to {context} tokens, which is what memory holds"));
    }
    let unused = weights.unused();
    if !unused.is_empty() {
        let some: Vec<_> = unused.iter().take(3).map(String::as_str).collect();
        notes.push(format!("{} tensors are not used, such as {}", unused.len(), some.join(", ")));
    }
    let unread = ck.config.unread();
    if !unread.is_empty() {
        notes.push(format!("settings that nothing reads: {}", unread.join(", ")));
    }
    notes
}
