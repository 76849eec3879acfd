//! From a path to an engine: checkpoint, family, plan, weights, cache.

use crate::{
    adapters::Adapters,
    builtin,
    error::{Error, Result},
    info::{ModelInfo, type_name},
    memory::{check_weights, plan_cache},
    options::LoadOptions,
    requantize::requantize,
    threads::default_threads,
    vocab,
};
use lamina_arch::{Family, Keep, ModelSpec, Weights};
use lamina_base::DType;
use lamina_cpu::Cpu;
use lamina_engine::Engine;
use lamina_plan::{Backend, KvTypes, Limits, Plan, Runner, WeightKind, WeightSpec, emit};
use lamina_store::Checkpoint;
use lamina_text::Tokenizer;
use std::{path::Path, sync::Arc};

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

/// Opens the checkpoint at `path`, or that of the model inside the package.
///
/// # Errors
/// When there is no model, or it is broken.
pub fn checkpoint(path: Option<&Path>) -> Result<Checkpoint> {
    let path = path.map_or_else(builtin::path, |p| Ok(p.to_owned()))?;
    Ok(Checkpoint::open(path)?)
}

/// Loads the model at `path` and builds its engine.
///
/// # Errors
/// When it cannot be found, read, supported, or held in memory; when `progress` gives up.
pub fn open(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
    let ck = checkpoint(path)?;
    let family = Family::of(&ck)?;
    let spec = family.spec(&ck)?;
    // Whoever asks for float32 wants packed weights as their method's formula gives them.
    let keep = if options.dtype == Some(DType::F32) { Keep::Exact } else { Keep::Small };
    let weights = Weights::new(&ck, family, &spec).keeping(keep);
    let plan = emit(&spec, &|name| weights.has(name));
    let adapters = Adapters::open(&options.loras, &ck, family, &spec, &plan)?;
    let plan = adapters.adapt(plan);
    check_context(&spec, options.context)?;
    check_weights(ck.total_bytes())?;
    let threads = options.threads.unwrap_or_else(default_threads);
    if threads == 0 || threads > 1024 {
        return Err(Error::InvalidRequest(format!("threads is {threads}, but must be from 1 to 1024")));
    }
    let cpu = Cpu::new(threads)?;
    let tokenizer = vocab::of_checkpoint(&ck)?;
    let end_tokens = vocab::end_tokens(&ck, tokenizer.as_ref()).into();

    let types = KvTypes::from(options.kv_type);
    let page_bytes = (0..plan.kv.groups.len()).map(|g| cpu.page_bytes(&plan.kv, g, types)).sum();
    let isa = cpu.isa();
    let (uploaded, bytes) = upload(&cpu, &ck, &weights, &adapters, &plan, options, threads, progress)?;
    let cache = plan_cache(&plan, page_bytes, spec.context, options.context)?;
    let rows = options.batch_rows.clamp(1, 1 << 16);
    let limits = Limits {
        rows,
        selected: (LOGITS / plan.vocab.max(1)).clamp(8, 512).min(rows),
        pages: vec![cache.pages; plan.kv.groups.len()],
        states: cache.states,
        kv: vec![types; plan.kv.groups.len()],
    };
    let info = ModelInfo {
        path: ck.files.first().map_or(ck.folder.as_path(), |f| f.path()).display().to_string(),
        architecture: ck.architecture.clone(),
        family: family.name,
        type_name: type_name(&ck),
        bytes: ck.total_bytes(),
        params: ck.tensors.values().map(|t| t.elements() as u64).sum(),
        layers: spec.layers.len(),
        hidden: spec.hidden,
        vocab: spec.vocab,
        context: cache.context,
        model_context: spec.context,
        kv_type: options.kv_type,
        kv_bytes_per_token: page_bytes as f64 / lamina_plan::PAGE_LEN as f64,
        bytes_per_token: bytes_per_token(&plan, &bytes),
        threads,
        isa: isa.name(),
        device: "cpu",
        notes: notes(&ck, &weights, tokenizer.as_ref(), cache.cut_from, cache.context),
        config: serde_json::Value::Object(ck.config.tree().clone()),
    };
    let runner = Runner::<Cpu>::new(cpu, plan, uploaded, limits)?;
    let engine = Engine::new(Box::new(runner), cache.context, options.reuse_prefixes);
    Ok(Loaded { engine, tokenizer, end_tokens, loras: adapters.into_names(), info })
}

/// Rotary positions go on beyond what a model was made for, a table of learned ones ends.
fn check_context(spec: &ModelSpec, asked: Option<usize>) -> Result<()> {
    match asked {
        Some(n) if spec.embed.positions.is_some() && n > spec.context => Err(Error::InvalidRequest(format!(
            "context is {n}, but the model has learned positions for {} tokens only",
            spec.context
        ))),
        _ => Ok(()),
    }
}

/// Hands every weight of the plan to the backend, and the file's pages back to the system. Tells the bytes of each;
/// those of adapters are not counted, since not every token reads them.
#[allow(clippy::too_many_arguments)] // all that loading holds meets here, once
fn upload(
    cpu: &Cpu,
    ck: &Checkpoint,
    weights: &Weights<'_>,
    adapters: &Adapters,
    plan: &Plan,
    options: &LoadOptions,
    threads: usize,
    progress: Progress<'_>,
) -> Result<(Vec<<Cpu as Backend>::Weight>, Vec<u64>)> {
    let total = ck.total_bytes();
    let mut done = 0;
    let (mut out, mut bytes) = (Vec::with_capacity(plan.weights.len()), vec![]);
    for spec in &plan.weights {
        if let Some(tensor) = adapters.tensor(spec) {
            out.push(cpu.upload(spec, &tensor)?);
            bytes.push(0);
            continue;
        }
        let (rows, cols) = spec.kind.shape();
        let mut tensor = weights.get(&spec.name, rows, cols)?;
        let parts = tensor.parts().to_vec();
        done += tensor.bytes() as u64;
        if let (true, Some(dtype)) = (is_matrix(spec), options.dtype) {
            tensor = requantize(tensor, dtype, threads)?;
        }
        out.push(cpu.upload(spec, &tensor)?);
        bytes.push(tensor.bytes() as u64);
        if is_matrix(spec) {
            parts.iter().for_each(|p| ck.release(p));
        }
        if !progress(done.min(total), total) {
            return Err(Error::Runtime("loading was cancelled".into()));
        }
    }
    Ok((out, bytes))
}

fn is_matrix(spec: &WeightSpec) -> bool {
    matches!(spec.kind, WeightKind::Matrix { .. } | WeightKind::Experts { .. })
}

/// Bytes of weights that one decoded token reads: all matrices, and of experts those that a token chooses.
fn bytes_per_token(plan: &Plan, bytes: &[u64]) -> u64 {
    let chosen = plan.ops.iter().find_map(|op| match op {
        lamina_plan::op::Op::Experts(e) => Some((e.moe.top_k, e.moe.experts)),
        _ => None,
    });
    let one = |(w, bytes): (&WeightSpec, &u64)| match (w.kind, chosen) {
        (WeightKind::Matrix { .. }, _) => *bytes,
        (WeightKind::Experts { count, .. }, Some((top_k, experts))) if count == experts => {
            bytes * top_k as u64 / experts as u64
        }
        (WeightKind::Experts { .. }, _) => *bytes,
        _ => 0,
    };
    plan.weights.iter().zip(bytes).map(one).sum()
}

/// What a user should know and no error says.
fn notes(
    ck: &Checkpoint,
    weights: &Weights<'_>,
    tokenizer: Option<&Tokenizer>,
    cut_from: Option<usize>,
    context: usize,
) -> Vec<String> {
    let mut notes: Vec<String> = tokenizer.map(|t| t.warnings().to_vec()).unwrap_or_default();
    if let Some(from) = cut_from {
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
