//! From a family's plan to the one that is run: approximations, adapters, sparse attention, and what is refused.

use crate::{
    error::{Error, Result},
    lora::Loras,
    options::LoadOptions,
};
use lamina_arch::{Family, Keep, ModelSpec, Weights, grows_with_the_text};
use lamina_base::DType;
use lamina_plan::{Backend, KvLayout, KvType, Plan, Reach, emit, sparsify};
use lamina_planner::stored_types;
use lamina_store::{Checkpoint, Config};

/// Whoever asks for float32 wants packed weights as their method's formula gives them.
pub(crate) fn keep(options: &LoadOptions) -> Keep {
    if options.dtype == Some(DType::F32) { Keep::Exact } else { Keep::Small }
}

/// The plan of the model in `ck` with all that was asked for, in the order in which `backend` runs it best, and its adapters.
/// `backend` computes the attention: the host, as long as it is asked what is divided.
///
/// # Errors
/// When the model has nothing that an approximation could change, an adapter is broken, the context is beyond what the
/// model can, or the type of weights can only be read.
pub(crate) fn model_plan(
    ck: &Checkpoint,
    (family, spec): (&'static Family, &ModelSpec),
    weights: &Weights<'_>,
    options: &LoadOptions,
    backend: &dyn Backend,
) -> Result<(Plan, Loras)> {
    let plan = options.experts.apply(emit(spec, &|name| weights.has(name)))?;
    let loras = Loras::open(&options.loras, ck, family, spec, &plan)?;
    let plan = with_layers_on_disk(sparse_plan(loras.adapt(plan), options, backend)?, options, backend)?;
    let plan = backend.ordered(plan);
    check_context(spec, &ck.config, options.context)?;
    check_dtype(options.dtype)?;
    Ok((plan, loras))
}

/// The plan with the attention that was asked for.
///
/// # Errors
/// When the model, or the type of its keys, cannot.
fn sparse_plan(plan: Plan, options: &LoadOptions, backend: &dyn Backend) -> Result<Plan> {
    let refuse = |what: &str| {
        Error::InvalidRequest(format!("attention_sparsity and sparse_prefill must be left out for {what}"))
    };
    let plan = sparsify(plan, options.sparsity).map_err(refuse)?;
    let types = stored_types(backend, &plan, options.kv_dtype);
    let coarse = |(group, types): (_, &lamina_plan::KvTypes)| {
        let all = plan.kv.groups.get::<usize>(group).is_some_and(|g| g.reach == Reach::All);
        all && matches!(types.k, KvType::Q4_0 | KvType::Q4_1)
    };
    match options.sparsity.prefill.is_some() && types.iter().enumerate().any(coarse) {
        true => Err(refuse(
            "keys of q4_0 and q4_1, which nothing averages; kv_dtype k=q8_0 is the smallest that is",
        )),
        false => Ok(plan),
    }
}

/// The plan with those layers of its cache marked that lie on disk.
fn with_layers_on_disk(plan: Plan, options: &LoadOptions, backend: &dyn Backend) -> Result<Plan> {
    let bound = options.placement.layers_on_disk(&plan)?;
    if !bound.is_empty() && !backend.capabilities().binds_cache {
        return Err(Error::Unsupported(format!(
            "a cache on disk (kv=disk) with {}: pages are read to the memory of the CPU, use device=\"cpu\"",
            backend.about().device
        )));
    }
    Ok(Plan { kv: KvLayout { bound, ..plan.kv.clone() }, ..plan })
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
