//! How a model's makers pool its rows into one vector: GGUF's `pooling_type`, or the files of sentence-transformers.

use crate::error::{Error, Result};
use lamina_engine::Pooling;
use lamina_store::{Checkpoint, Kind, PoolingError, PoolingMode};

/// Values of `pooling_type` in GGUF files. 0 says that rows are used as they are, 4 that a classifier scores the first.
const GGUF_TYPES: &[(u64, Option<Pooling>)] = &[
    (0, None),
    (1, Some(Pooling::Mean)),
    (2, Some(Pooling::First)),
    (3, Some(Pooling::Last)),
    (4, Some(Pooling::First)),
];

/// The pooling of the model in `ck`: what its files say, else the mean.
///
/// # Errors
/// When the files name a pooling, or a layer behind it, that is not built.
pub fn pooling(ck: &Checkpoint) -> Result<Pooling> {
    match ck.kind {
        Kind::Gguf => of_gguf(ck),
        Kind::HuggingFace => {
            Ok(PoolingMode::of_folder(&ck.folder)?.map_or(Pooling::Mean, |mode| match mode {
                PoolingMode::Mean => Pooling::Mean,
                PoolingMode::First => Pooling::First,
                PoolingMode::Last => Pooling::Last,
            }))
        }
    }
}

fn of_gguf(ck: &Checkpoint) -> Result<Pooling> {
    let key = format!("{}.pooling_type", ck.architecture);
    let Some(value) = ck.metadata.get(&key) else { return Ok(Pooling::Mean) };
    let known = value.as_int().and_then(|n| GGUF_TYPES.iter().find(|(id, _)| i128::from(*id) == n));
    match known {
        Some((_, pooling)) => Ok(pooling.unwrap_or(Pooling::Mean)),
        None => Err(Error::Format(format!("{key} is {}, but must be from 0 to 4", value.describe()))),
    }
}

impl From<PoolingError> for Error {
    fn from(e: PoolingError) -> Self {
        match e {
            PoolingError::Format(text) => Error::Format(text),
            PoolingError::Unsupported(text) => Error::Unsupported(text),
        }
    }
}
