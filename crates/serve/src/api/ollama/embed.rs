//! POST /api/embed and /api/embeddings.

use super::{
    fields::{EMBED, EMBEDDINGS},
    request::options_of_vectors,
};
use crate::{
    body::{Body, texts},
    call::{HttpCall, json_response},
    error::ApiError,
    models::Lease,
    run,
};
use axum::response::Response;
use lamina::{Pooled, Special};
use serde_json::{Value, json};
use std::time::Instant;

/// The handler of several texts.
pub async fn embed(call: HttpCall) -> Result<Response, ApiError> {
    let began = Instant::now();
    let mut body = call.body(&EMBED).await?;
    let lease = call.model(&mut body).await?;
    let width = lease.live.model.info().hidden;
    let dimensions = body.take("dimensions")?.unwrap_or(width);
    if !(1..=width).contains(&dimensions) {
        let text = format!("dimensions is {dimensions}, but must be from 1 to {width}");
        return Err(ApiError::at("dimensions", text));
    }
    let input = body.value("input").ok_or_else(|| ApiError::at("input", "input is missing"))?;
    let texts = texts(input, "input")?;
    options_of_vectors(&call, &mut body, &lease)?;
    call.finish(body);
    if texts.is_empty() {
        return Ok(json_response(&json!({"model": lease.name(), "embeddings": []})));
    }
    let (pools, tokens) = vectors(&call, &lease, texts).await?;
    let vectors: Vec<_> = pools.iter().map(|pool| run::shortened(pool.unit(), dimensions)).collect();
    Ok(json_response(&json!({
        "model": lease.name(),
        "embeddings": vectors,
        "total_duration": began.elapsed().as_nanos() as u64,
        "load_duration": 0,
        "prompt_eval_count": tokens,
    })))
}

/// The handler of one text, older than the other one.
pub async fn embeddings(call: HttpCall) -> Result<Response, ApiError> {
    let mut body: Body = call.body(&EMBEDDINGS).await?;
    let lease = call.model(&mut body).await?;
    let prompt: String = body.take("prompt")?.unwrap_or_default();
    options_of_vectors(&call, &mut body, &lease)?;
    call.finish(body);
    let vector: Vec<f32> = match prompt.is_empty() {
        // So clients load a model.
        true => vec![],
        false => vectors(&call, &lease, vec![prompt]).await?.0.iter().flat_map(Pooled::unit).collect(),
    };
    let vector: Vec<Value> = vector.into_iter().map(|x| json!(x)).collect();
    Ok(json_response(&json!({"embedding": vector})))
}

/// A vector of each text, and the tokens of all.
async fn vectors(
    call: &HttpCall,
    lease: &Lease,
    texts: Vec<String>,
) -> Result<(Vec<Pooled>, usize), ApiError> {
    let mut prompts = Vec::with_capacity(texts.len());
    for text in texts {
        prompts.push(call.text(lease, text, Special::ADD).await?);
    }
    let tokens = prompts.iter().map(Vec::len).sum();
    Ok((run::vectors(lease, prompts, &call.terms()).await?, tokens))
}
