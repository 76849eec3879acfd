//! From a checkpoint to an engine: family, plan, what is refused, cache, weights.

use crate::{
    built::Built,
    draft::{DraftSource, check_tokens, names},
    error::{Error, Result, enough_memory},
    identity::identity,
    info::ModelInfo,
    lora::Loras,
    memory::{CachePlan, GroupBytes, check_weights, plan_cache},
    options::LoadOptions,
    pooling::pooling,
    requantize::{becomes, requantize},
    turn::InTurn,
    vocab,
};
use lamina_arch::{Family, Keep, ModelSpec, Weights, grows_with_the_text};
use lamina_base::DType;
use lamina_engine::{Engine, MOST_DRAFTS};
use lamina_plan::{
    Backend, BackendError, GroupSpec, KvDtype, KvTypes, Limits, Plan, Runner, WeightKind, WeightSpec, emit,
    op::Op,
};
use lamina_store::{Checkpoint, Config};
use lamina_text::Tokenizer;
use std::sync::Arc;

/// Told how many bytes of the weights are loaded, and how many there are; returning false gives up.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

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

/// Logits that one step may hand out, in numbers: 64 MB.
const LOGITS: usize = 16 << 20;

/// Builds the engine of the model in `ck` on `backend`. Whatever can be refused is refused before a weight is read.
///
/// # Errors
/// When the model is broken, not supported by the backend, or cannot be held in its memory; when `progress` gives up.
pub fn open_on<B: Backend + 'static>(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: B,
    progress: Progress<'_>,
) -> Result<Loaded> {
    if let Some(w) = options.draft_width.filter(|&w| w > MOST_DRAFTS) {
        return Err(Error::InvalidRequest(format!(
            "draft_width is {w}, but must be from 0 to {MOST_DRAFTS}"
        )));
    }
    let draft = open_draft(options, &backend)?;
    let model = build(ck, options, backend, draft.as_ref().map_or(0, |d| d.bytes), progress)?;
    if let Some(draft) = &draft {
        check_tokens(&model, draft)?;
    }
    let drafters = options.draft.as_ref().map(|source| source.drafters(draft)).unwrap_or_default();
    let info = ModelInfo { draft: names(&drafters), ..model.info };
    let engine = Engine::with_policy(model.step, model.context, options.reuse_prefixes, options.policy)
        .identified(model.identity)
        .drafting(drafters, options.draft_width);
    let Built { tokenizer, end_tokens, loras, .. } = model;
    Ok(Loaded { engine, tokenizer, end_tokens, loras, info })
}

/// The draft model that was asked for, on the same device and threads.
fn open_draft<B: Backend + 'static>(options: &LoadOptions, backend: &B) -> Result<Option<Built>> {
    let Some(path) = options.draft.as_ref().map(DraftSource::model).transpose()?.flatten() else {
        return Ok(None);
    };
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
    build(&Checkpoint::open(path)?, &options, own, 0, &|_, _| true).map(Some)
}

/// Puts the model in `ck` on `backend`, beside `reserved` bytes that others take.
fn build<B: Backend + 'static>(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: B,
    reserved: u64,
    progress: Progress<'_>,
) -> Result<Built> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    // Whoever asks for float32 wants packed weights as their method's formula gives them.
    let keep = if options.dtype == Some(DType::F32) { Keep::Exact } else { Keep::Small };
    let weights = Weights::new(ck, family, &spec).keeping(keep);
    let plan = emit(&spec, &|name| weights.has(name));
    let loras = Loras::open(&options.loras, ck, family, &spec, &plan)?;
    let plan = loras.adapt(plan);
    let tokenizer = vocab::tokenizer(ck)?;

    check_context(&spec, &ck.config, options.context)?;
    check_dtype(options.dtype)?;
    check_plan(&backend, &plan)?;
    let memory = backend.memory();
    let taken = weight_bytes(&backend, &plan, &weights, &loras, options)?;
    check_weights(taken + reserved, memory)?;
    let rows = step_rows(&backend, &plan, options, spec.context);
    let kv = stored_types(&backend, &plan, options.kv_dtype);
    let groups = group_bytes(&backend, &plan, &kv, rows);
    let free = memory.map(|m| m.free.saturating_sub(taken + reserved));
    let free = cache_memory(free, options.kv_memory);
    let cache = plan_cache(&plan, &groups, spec.context, options.context, free)?;
    let from = OpenedModel { ck, weights: &weights, loras: &loras, dtype: options.dtype };
    let (uploaded, bytes) = upload(&backend, &from, &plan, progress)?;
    let about = backend.about();
    let identity = identity(ck, options, &about, &loras);
    let placed = ModelInfo {
        bytes_per_token: bytes_per_token(&plan, &bytes),
        threads: about.threads,
        isa: about.kernels,
        device: about.device,
        notes: notes(ck, &weights, tokenizer.as_ref(), &cache, spec.context),
        pooling: pooling(ck),
        ..ModelInfo::of(ck, family, &spec)
    };
    let info = with_cache(placed, &plan, &cache, &groups, &kv, options);
    let limits = step_limits(&plan, rows, &cache, kv);
    let runner = Runner::<B>::new(backend, plan, uploaded, limits)?;
    Ok(Built {
        step: Box::new(InTurn::new(Box::new(runner))),
        context: cache.context,
        end_tokens: vocab::end_tokens(ck, tokenizer.as_ref()).into(),
        tokenizer,
        info,
        loras: loras.into_names(),
        identity,
        bytes: taken + groups.all(&cache.pages) as u64,
    })
}

/// What is known of the cache beside the model.
fn with_cache(
    info: ModelInfo,
    plan: &Plan,
    cache: &CachePlan,
    groups: &GroupBytes,
    kv: &[KvTypes],
    options: &LoadOptions,
) -> ModelInfo {
    let stored = plan.kv.groups.iter().map(|g| g.reach).zip(kv.iter().copied());
    let page_bytes: usize = groups.groups.iter().map(|g| g.1).sum();
    ModelInfo {
        context: cache.context,
        kv_dtype: KvDtype::of_groups(stored).unwrap_or(options.kv_dtype),
        kv_bytes_per_token: page_bytes as f64 / lamina_plan::PAGE_LEN as f64,
        kv_bytes_per_sequence: cache.sequence_bytes as u64,
        ..info
    }
}

/// Longest text of an encoder where nobody asks for more, in tokens: its rows all stand in one step.
const WHOLE_TEXT: usize = 8192;

/// Rows of a step: what was asked for, what the backend likes, or a whole text where rows see later ones.
fn step_rows<B: Backend>(backend: &B, plan: &Plan, options: &LoadOptions, own: usize) -> usize {
    let text = options.context.unwrap_or(own.min(WHOLE_TEXT));
    let rows = if plan.looks_ahead() { text.max(backend.rows()) } else { backend.rows() };
    options.batch_rows.unwrap_or(rows).clamp(1, 1 << 16)
}

/// Memory to plan the cache with: what is free, or what makes a cache of `asked` bytes. A fifth of it stays out of the
/// cache.
fn cache_memory(free: Option<u64>, asked: Option<u64>) -> Option<u64> {
    free.into_iter().chain(asked.map(|bytes| bytes / 4 * 5)).min()
}

/// What the machine is made for.
fn step_limits(plan: &Plan, rows: usize, cache: &CachePlan, kv: Vec<KvTypes>) -> Limits {
    let most = (LOGITS / plan.vocab.max(1)).clamp(8, 512).min(rows);
    let logits = if plan.looks_ahead() { rows } else { most };
    Limits { rows, selected: logits, logits, pages: cache.pages.clone(), states: cache.states, kv }
}

/// What each layer group is stored in: what was asked for, where the backend has it.
fn stored_types<B: Backend>(backend: &B, plan: &Plan, asked: KvDtype) -> Vec<KvTypes> {
    let one = |(i, g): (usize, &GroupSpec)| backend.stores_as(&plan.kv, i, asked.of(g.reach));
    plan.kv.groups.iter().enumerate().map(one).collect()
}

/// Rotary positions go on beyond what a model was made for, a table of learned ones ends.
fn check_context(spec: &ModelSpec, config: &Config, asked: Option<usize>) -> Result<()> {
    match asked.filter(|&n| n > spec.context) {
        // The base of dynamic NTK scaling follows the length of the text as it grows. Keys that are cached were
        // turned by another table, so logits would depend on how a prompt was cut and what the cache held.
        Some(n) if grows_with_the_text(config) => Err(Error::Unsupported(format!(
            "context is {n}, but rope_type \"dynamic\" beyond the model's own {} tokens is not supported: its \
             tables change with every token; ask for at most {} tokens, or set rope_type to \"yarn\" or \"linear\"",
            spec.context, spec.context
        ))),
        Some(n) if spec.embed.positions.is_some() => Err(Error::InvalidRequest(format!(
            "context is {n}, but the model has learned positions for {} tokens only",
            spec.context
        ))),
        _ => Ok(()),
    }
}

/// Bytes of a page of each layer group.
fn group_bytes<B: Backend>(backend: &B, plan: &Plan, kv: &[KvTypes], rows: usize) -> GroupBytes {
    let bytes = |(i, g): (usize, &GroupSpec)| (g.reach, backend.page_bytes(&plan.kv, i, kv[i]));
    GroupBytes { groups: plan.kv.groups.iter().enumerate().map(bytes).collect(), rows }
}

/// Refuses to quantize to a type that can only be read.
fn check_dtype(dtype: Option<DType>) -> Result<()> {
    match dtype.filter(|d| lamina_quant::format(*d).is_none()) {
        None => Ok(()),
        Some(dtype) => {
            let known: Vec<_> = lamina_quant::FORMATS.iter().map(|f| f.dtype().name()).collect();
            Err(Error::InvalidRequest(format!(
                "dtype is {dtype}, which can only be read; known: {}",
                known.join(" ")
            )))
        }
    }
}

/// What of `plan` the backend does not run; none when it runs all of it. Fused operators that it lacks run as what they
/// stand for.
pub fn refusal<B: Backend>(backend: &B, plan: &Plan) -> Option<String> {
    let has = backend.capabilities().ops;
    let missing = |name: &&str| Op::PLAIN.contains(name) && !has.contains(name);
    let operator = plan.ops.iter().map(Op::name).find(missing).map(|name| format!("the operator {name}"));
    operator.or_else(|| backend.refuses(plan))
}

/// Refuses a plan that the backend does not run.
fn check_plan<B: Backend>(backend: &B, plan: &Plan) -> Result<()> {
    match refusal(backend, plan) {
        Some(what) => Err(BackendError::Unsupported { backend: backend.name(), what }.into()),
        None => Ok(()),
    }
}

/// Bytes that the weights take on the backend, found from headers alone. Every weight that the plan wants is there, in
/// its shape, once this returns.
fn weight_bytes<B: Backend>(
    backend: &B,
    plan: &Plan,
    weights: &Weights<'_>,
    loras: &Loras,
    options: &LoadOptions,
) -> Result<u64> {
    let one = |spec: &WeightSpec| -> Result<u64> {
        let (rows, cols) = spec.kind.shape();
        let dtype = match loras.has(spec) {
            true => DType::F32,
            false => weights.check(&spec.name, rows, cols)?,
        };
        let dtype = options
            .dtype
            .filter(|_| is_matrix(spec) && !loras.has(spec))
            .map_or(dtype, |to| becomes(dtype, to, cols));
        Ok(backend.weight_bytes(spec, dtype) as u64)
    };
    plan.weights.iter().map(one).sum()
}

/// Where weights come from.
struct OpenedModel<'a> {
    ck: &'a Checkpoint,
    weights: &'a Weights<'a>,
    loras: &'a Loras,
    /// Type to quantize matrices to, if any.
    dtype: Option<DType>,
}

/// Hands every weight of the plan to the backend. Tells the bytes of each; those of adapters are not counted, since not
/// every token reads them.
fn upload<B: Backend>(
    backend: &B,
    from: &OpenedModel<'_>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<(Vec<B::Weight>, Vec<u64>)> {
    let (total, threads) = (from.ck.total_bytes(), backend.about().threads);
    let mut done = 0;
    let (mut out, mut bytes) = (Vec::with_capacity(plan.weights.len()), vec![]);
    for spec in &plan.weights {
        if let Some(tensor) = from.loras.tensor(spec) {
            out.push(backend.upload(spec, &tensor)?);
            bytes.push(0);
            continue;
        }
        let (rows, cols) = spec.kind.shape();
        let mut tensor = from.weights.get(&spec.name, rows, cols)?;
        done += tensor.bytes() as u64;
        if let (true, Some(dtype)) = (is_matrix(spec), from.dtype) {
            tensor = requantize(tensor, dtype, threads)?;
        }
        out.push(backend.upload(spec, &tensor)?);
        bytes.push(tensor.bytes() as u64);
        enough_memory("weights were loaded")?;
        if !progress(done.min(total), total) {
            return Err(Error::Runtime("loading was cancelled".into()));
        }
    }
    Ok((out, bytes))
}

fn is_matrix(spec: &WeightSpec) -> bool {
    matches!(spec.kind, WeightKind::Matrix { .. } | WeightKind::Stack { .. })
}

/// Bytes of weights that one decoded token reads: all matrices, and of experts those that a token chooses.
fn bytes_per_token(plan: &Plan, bytes: &[u64]) -> u64 {
    let chosen = plan.ops.iter().find_map(|op| match op {
        Op::Experts(e) => Some((e.routing.top_k, e.routing.experts)),
        _ => None,
    });
    let one = |(w, bytes): (&WeightSpec, &u64)| match (w.kind, chosen) {
        (WeightKind::Matrix { .. }, _) => *bytes,
        (WeightKind::Stack { count, .. }, Some((top_k, experts))) if count == experts => {
            bytes * top_k as u64 / experts as u64
        }
        (WeightKind::Stack { .. }, _) => *bytes,
        _ => 0,
    };
    plan.weights.iter().zip(bytes).map(one).sum()
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
