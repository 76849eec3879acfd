//! Vectors for texts.

use crate::{
    error::{ApiError, Cause},
    models::Lease,
};
use lamina::{Event, FinishReason, Handle, LengthBy, Pooled, Pooling, Terms};
use std::future::poll_fn;

/// Texts of one request at most.
const MOST_TEXTS: usize = 2048;

/// A vector of each prompt, by the pooling that the model's settings name. Dropping the future cancels what has not
/// ended.
///
/// # Errors
/// When a prompt does not fit, or the model fails.
pub async fn vectors(lease: &Lease, prompts: Vec<Vec<u32>>, terms: &Terms) -> Result<Vec<Pooled>, ApiError> {
    if prompts.is_empty() || prompts.len() > MOST_TEXTS {
        let text = format!("input has {} texts, but must have from 1 to {MOST_TEXTS}", prompts.len());
        return Err(ApiError::at("input", text));
    }
    let info = lease.live.model.info();
    for prompt in &prompts {
        if prompt.is_empty() {
            return Err(ApiError::at("input", "input is empty: give at least one token"));
        }
        if let Some(&token) = prompt.iter().find(|&&t| t as usize >= info.vocab) {
            return Err(
                ApiError::from(lamina::EngineError::UnknownToken { token, vocab: info.vocab }).of("input")
            );
        }
        if prompt.len() > info.context {
            let text = format!("a text has {} tokens, but the context holds {}", prompt.len(), info.context);
            return Err(ApiError::new(Cause::TooLong { prompt: prompt.len(), context: info.context }, text));
        }
    }
    let (model, pooling) = (lease.model(None)?, pooling(lease)?);
    let running = prompts
        .into_iter()
        .map(|prompt| Ok(model.submit_pooled(prompt, pooling, terms.clone())?))
        .collect::<Result<Vec<(Handle, Pooled)>, ApiError>>()?;
    let mut done = Vec::with_capacity(running.len());
    for (handle, pool) in running {
        finished(&handle).await?;
        done.push(pool);
    }
    Ok(done)
}

/// The first `dimensions` numbers of a vector, of length one.
pub fn shortened(mut vector: Vec<f32>, dimensions: usize) -> Vec<f32> {
    if dimensions < vector.len() {
        vector.truncate(dimensions);
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

/// Waits for the end of a pass.
pub(super) async fn finished(handle: &Handle) -> Result<(), ApiError> {
    loop {
        match poll_fn(|context| handle.poll_next(context)).await {
            Some(Event::Finished { reason: FinishReason::Length { by: LengthBy::Deadline }, .. }) => {
                return Err(ApiError::new(Cause::Timeout, "the time of this request is over"));
            }
            Some(Event::Finished { .. }) => return Ok(()),
            Some(Event::Failed(e)) => return Err(e.into()),
            Some(_) => {}
            None => return Err(ApiError::fault("the model ended before the vector was there")),
        }
    }
}

/// How rows become one.
fn pooling(lease: &Lease) -> Result<Pooling, ApiError> {
    match lease.slot().settings.pooling.as_deref() {
        None => Ok(lease.model(None)?.info().pooling.clone()?),
        Some("mean") => Ok(Pooling::Mean),
        Some("cls") => Ok(Pooling::First),
        Some("last") => Ok(Pooling::Last),
        Some(_) => Err(ApiError::unsupported("the server's --pooling must be mean, cls or last")),
    }
}
