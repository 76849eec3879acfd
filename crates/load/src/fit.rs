//! Whether a model fits into memory, told from headers alone: nothing is measured.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    model_plan::keep,
    options::LoadOptions,
};
use lamina_arch::{Family, Weights};
use lamina_base::human_bytes;
use lamina_plan::Backend;
use lamina_planner::{HeadSizes, Neighbours, OffloadReason, Placement, WeightOffload};
use lamina_store::Checkpoint;
use std::fmt;

/// Whether a model fits into memory, by what decides it when it is loaded.
#[derive(Debug, Clone, PartialEq)]
pub enum MemoryFit {
    /// All of it.
    Whole {
        /// Of weights and cache.
        bytes: u64,
        /// Tokens of the longest sequence.
        context: usize,
        /// Tokens that the model was made for, where memory holds fewer.
        cut_from: Option<usize>,
    },
    /// Weights are read from disk in every step.
    Streamed {
        /// Why.
        reason: OffloadReason,
        /// Of those.
        bytes: u64,
        /// Tokens of the longest sequence.
        context: usize,
    },
    /// It cannot be loaded.
    Misfit(String),
}

impl fmt::Display for MemoryFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryFit::Whole { bytes, context, cut_from } => {
                let bytes = human_bytes(*bytes);
                write!(f, "fits into memory: {bytes} of weights and cache with {context} tokens of context")?;
                cut_from.map_or(Ok(()), |whole| write!(f, ", cut from {whole}"))
            }
            MemoryFit::Streamed { reason, bytes, context } => write!(
                f,
                "{}: {} of its weights will be read from disk in every step, with {context} tokens of context",
                match reason {
                    OffloadReason::Memory => "does not fit into memory",
                    OffloadReason::Asked => "fits into memory, but is asked to lie on disk",
                },
                human_bytes(*bytes)
            ),
            MemoryFit::Misfit(why) => write!(f, "cannot be loaded here: {why}"),
        }
    }
}

/// Whether the model in `ck` fits into the memory of `backend`. Adapters and draft models are left out.
///
/// # Errors
/// When the model is broken or not supported.
pub fn fit_on(ck: &Checkpoint, options: &LoadOptions, backend: &dyn Backend) -> Result<MemoryFit> {
    let alone = LoadOptions { loras: vec![], draft: None, ..options.clone() };
    Ok(match placed_alone(ck, &alone, backend)? {
        Err(why) => MemoryFit::Misfit(why),
        Ok(Placement { weights, cache, bytes, .. }) => match weights.offload {
            Some(WeightOffload { reason, rows, .. }) => {
                MemoryFit::Streamed { reason, bytes: rows.streamed_bytes, context: cache.context }
            }
            None => MemoryFit::Whole { bytes, context: cache.context, cut_from: cache.cut_from },
        },
    })
}

/// Where the model in `ck` lies on `backend` alone; why it does not fit where it does not.
pub(crate) fn placed_alone(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: &dyn Backend,
) -> Result<std::result::Result<Placement, String>> {
    placed_beside(ck, options, backend, 0)
}

/// The same beside what takes so many bytes.
pub(crate) fn placed_beside(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: &dyn Backend,
    taken: u64,
) -> Result<std::result::Result<Placement, String>> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    let weights = Weights::new(ck, family, &spec).keeping(keep(options));
    let opened = OpenedModel::new(ck, (family, &spec), &weights, options, backend)?;
    let headers = opened.headers(HeadSizes::default());
    let beside = Neighbours { taken, ..Neighbours::default() };
    match Placement::of(&headers, backend, &options.placing(), beside).map_err(Error::from) {
        Ok(placement) => Ok(Ok(placement)),
        Err(Error::OutOfMemory(why)) => Ok(Err(why)),
        Err(e) => Err(e),
    }
}
