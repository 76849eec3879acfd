//! From a checkpoint to an engine: family, plan, what is refused, cache, weights.

use crate::{
    backend_model::BackendModel,
    company::{Company, DraftFiles, draft_backend, draft_options, head_sizes},
    draft::{draft_model, names},
    error::{Error, Result},
    headers::OpenedModel,
    heads::{PlannedHead, ReadyHead, UploadedModel},
    identity::identity,
    info::{ModelInfo, StreamInfo},
    kv_stores::{CacheOnDisk, open_store, open_swap},
    local_ranks::LocalRanks,
    model_plan::keep,
    options::LoadOptions,
    panel_load::{StreamedModel, load_streamed},
    pooling::pooling,
    rank_group::JoinedRanks,
    uploads::{Progress, upload},
    vision::{PictureEncoder, SoundEncoder, find_encoder, picture_parts, taken_by_encoders},
    vocab,
};
use lamina_arch::{Family, ModelSpec, SENSE_SECTIONS, Weights, is_sense};
use lamina_engine::{Engine, InTurn, MOST_DRAFTS};
use lamina_plan::{Backend, BackendWeight, Limits, Plan, Runner};
use lamina_planner::{CachePlan, DevicePlacement, MemoryPart, Placement, bytes_per_token};
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
    /// What turns pictures into rows, where the model sees.
    pub pictures: Option<PictureEncoder>,
    /// What turns sounds into rows, where the model hears.
    pub sounds: Option<SoundEncoder>,
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
    open_with(ck, options, backend, None, progress)
}

/// The same where `ranks` of this process may compute it, too.
///
/// # Errors
/// As for [`open_on`], and when one of the ranks fails.
pub fn open_with(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    ranks: Option<LocalRanks>,
    progress: Progress<'_>,
) -> Result<Loaded> {
    if backend.capabilities().shares_memory {
        options.placement.without_device(&backend.about().device)?;
    }
    open_placed(ck, options, backend, (None, ranks), progress)
}

/// The same where a part of the model lies on a device beside the host, or ranks of this process compute it.
pub(crate) fn open_placed(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    (device, ranks): (Option<DevicePlacement>, Option<LocalRanks>),
    progress: Progress<'_>,
) -> Result<Loaded> {
    if let Some(w) = options.draft_width.filter(|&w| w > MOST_DRAFTS) {
        return Err(Error::InvalidRequest(format!(
            "draft_width is {w}, but must be from 0 to {MOST_DRAFTS}"
        )));
    }
    let (store, swap) = (open_store(options)?, open_swap(options)?);
    let files = DraftFiles::open(options)?;
    let mut company = Company { heads: files.heads(), device, ..Company::default() };
    let mut draft = None;
    if let Some((draft_ck, draft_tokenizer)) = files.model() {
        // A forecast finds as much memory: it has the tokenizers, and loads nothing else.
        company.tokenizer = vocab::tokenizer(ck)?;
        company.memory = options.placing().memory_of(&*backend);
        let loaded = build_draft(draft_ck, draft_tokenizer, options, &*backend)?;
        company.bytes = loaded.bytes;
        draft = Some(loaded);
    }
    let (found, told) = find_encoder(ck, options)?;
    let raised = found.as_ref().map(|found| found.raised(options, &*backend));
    if let Some(found) = &found {
        let own = options.encoders.apart_from(&*backend);
        let (_, parts) = picture_parts(found, options, own.as_deref().unwrap_or(&*backend), None)?;
        company.bytes += taken_by_encoders(options, &*backend, &parts)?;
    }
    let pictures = found.and_then(|found| PictureEncoder::new(found, ck, options, &*backend));
    let (sounds, heard) = SoundEncoder::find(ck, options, &*backend)?;
    let parts = sounds.as_ref().map_or(&[][..], SoundEncoder::parts);
    company.bytes += taken_by_encoders(options, &*backend, parts)?;
    let options = raised.as_ref().unwrap_or(options);
    let mut model = build(ck, options, backend, (company, ranks), progress)?;
    let blind = pictures.is_none() && sounds.is_none();
    let told: Vec<String> = told.into_iter().chain(heard).collect();
    let unused = unused_senses(ck).filter(|_| blind && told.is_empty());
    model.info.notes.extend(told.into_iter().chain(unused));
    let mut computing: Vec<_> = model.head.take().map(ReadyHead::drafter).into_iter().collect();
    if let Some(draft) = draft {
        computing.push(draft_model(&model, draft)?);
    }
    let drafters = options.draft.as_ref().map(|source| source.drafters(computing)).unwrap_or_default();
    let info = ModelInfo { draft: names(&drafters), ..model.info };
    let mut engine =
        Engine::with_policy(model.step, model.context, options.reuse_prefixes, options.engine_policy())
            .identified(model.identity)
            .drafting(drafters, options.draft_width);
    if let Some(store) = store {
        engine = engine.persisted(store);
    }
    if let Some(swap) = swap {
        engine = engine.swapping(swap, options.kv_swap.choice)?;
    }
    let BackendModel { tokenizer, end_tokens, loras, .. } = model;
    Ok(Loaded { engine, tokenizer, end_tokens, loras, info, pictures, sounds })
}

/// The draft model in `ck`, on the same device and threads.
fn build_draft(
    ck: &Checkpoint,
    tokenizer: Option<Tokenizer>,
    options: &LoadOptions,
    backend: &dyn Backend,
) -> Result<BackendModel> {
    let own = draft_backend(backend)?;
    let company =
        Company { tokenizer, longest: Some(options.context.unwrap_or(usize::MAX)), ..Company::default() };
    build(ck, &draft_options(options, backend), own, (company, None), &|_, _| true)
}

/// Puts the model in `ck` on `backend`.
fn build(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: Box<dyn Backend>,
    (company, local): (Company<'_>, Option<LocalRanks>),
    progress: Progress<'_>,
) -> Result<BackendModel> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let opened = OpenedModel::new(ck, (family, &spec), &weights, options, &*backend)?;
    let (opened, mut ranks) = JoinedRanks::divide(opened, options, &*backend, local)?;
    let (plan, source) = (&opened.plan, &opened.from);
    let tokenizer = company.tokenizer_of(ck)?;
    let found = company.heads.find(ck, family, &spec)?;
    let head_weights = found.as_ref().map(|head| head.weights().keeping(keep(options)));
    let head = found.as_ref().zip(head_weights.as_ref());
    // Rows that a head goes on from are named by the plan of all machines.
    let whole = ranks.as_ref().map_or(plan, JoinedRanks::whole_plan).clone();
    let head = head.map(|(found, weights)| PlannedHead::new(found, weights, &whole, options.dtype));
    let sizes = found.as_ref().map(|found| head_sizes(found, &opened, &*backend, options)).transpose()?;
    let headers = company.bounded(opened.headers(sizes.unwrap_or_default()));
    let placing = options.placing();
    let mut placement = Placement::of(&headers, &*backend, &placing, company.neighbours())?;
    let total = ck.total_bytes();
    let place = |ranks: &mut JoinedRanks| ranks.place(&mut placement, &*backend, &|| progress(0, total));
    let staged = ranks.as_mut().map(place).transpose()?;
    let parts = MemoryPart::of(&headers, &placement, &*backend, &placing)?;
    // Before weights are read: a disk that is too full is known at once.
    let on_disk = CacheOnDisk::open(&placement, plan, options)?;
    let (placed, bytes) = PlacedWeights::load(&*backend, &opened, &placement, options, progress)?;
    let known = ModelInfo {
        bytes_per_token: bytes_per_token(plan, &bytes),
        notes: notes(ck, &weights, tokenizer.as_ref(), &placement.cache, spec.context),
        stream: placed.info(),
        ..described(ck, (family, &spec), options, &*backend)
    };
    let mut info = known.placed(&placement, plan);
    let beside = on_disk.as_ref().map(CacheOnDisk::note).into_iter().chain(staged.into_iter().flatten());
    info.notes.extend(info.load_notes().into_iter().chain(beside));
    let model = UploadedModel { plan, weights: placed.resident(), source };
    let pages = (placement.head_pages, options.kv_dtype);
    let head = head.map(|head| head.load(&*backend, model, &placement.limits, pages)).transpose()?;
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let kernels = JoinedRanks::kernels(ranks.as_ref(), backend.identity());
    let identity = identity(ck, options, &kernels, &opened.loras);
    let OpenedModel { plan, loras, .. } = opened;
    let own = (placed.step(backend, plan, placement.limits, on_disk)?, placement.weights.offload.is_some());
    Ok(BackendModel {
        step: Box::new(InTurn::new(JoinedRanks::step(ranks, own, progress, total)?)),
        head,
        context: placement.cache.context,
        end_tokens: vocab::end_tokens(ck, tokenizer.as_ref()).into(),
        tokenizer,
        info,
        loras: loras.into_names(),
        identity,
        bytes,
    })
}

/// What is known of a model before any of it is placed.
fn described(
    ck: &Checkpoint,
    (family, spec): (&'static Family, &ModelSpec),
    options: &LoadOptions,
    backend: &dyn Backend,
) -> ModelInfo {
    let about = backend.about();
    ModelInfo {
        threads: about.threads,
        isa: about.kernels,
        device: about.device,
        pooling: pooling(ck),
        kv_dtype: options.kv_dtype,
        approximations: options.approximations(),
        ..ModelInfo::of(ck, family, spec)
    }
}

/// Where weights are.
pub(crate) enum PlacedWeights {
    /// All in memory.
    Resident(Vec<BackendWeight>),
    /// Some on disk.
    Streamed(Box<StreamedModel>),
}

impl PlacedWeights {
    /// Puts the weights where `placement` says; tells the bytes of each.
    pub fn load(
        backend: &dyn Backend,
        opened: &OpenedModel<'_>,
        placement: &Placement,
        options: &LoadOptions,
        progress: Progress<'_>,
    ) -> Result<(Self, Vec<u64>)> {
        let meter = (opened.ck.total_bytes(), progress);
        Ok(match &placement.weights.offload {
            None => {
                let (weights, bytes) = upload(backend, &opened.from, &opened.loras, &opened.plan, meter)?;
                (PlacedWeights::Resident(weights), bytes)
            }
            Some(offload) => {
                let sizes = &placement.weights.sizes;
                let (model, bytes) =
                    load_streamed(backend, opened, (offload, sizes), &options.stream, meter)?;
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
    pub fn step(
        self,
        backend: Box<dyn Backend>,
        plan: Plan,
        limits: Limits,
        cache: Option<CacheOnDisk>,
    ) -> Result<Runner> {
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
        Ok(Runner::on(machine, plan, limits).selecting_cells(selects_cells))
    }
}

/// What is said of encoders that nothing uses.
fn unused_senses(ck: &Checkpoint) -> Option<String> {
    let senses = ck.tensors.keys().filter(|name| is_sense(name)).count();
    let told = format!("its encoders of pictures or sound ({senses} tensors) are not used: text only");
    (senses > 0).then_some(told)
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
    let mut unread = ck.config.unread();
    unread.retain(|key| !SENSE_SECTIONS.iter().any(|section| key.contains(section)));
    if !unread.is_empty() {
        notes.push(format!("settings that nothing reads: {}", unread.join(", ")));
    }
    notes
}
