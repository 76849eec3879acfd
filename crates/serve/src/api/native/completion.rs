//! POST /completion.

use super::{
    completion_render::{NativeRenderer, Told},
    steer::{known_seed, logit_bias, samplers},
};
use crate::{
    body::{Body, FieldSpec, FieldTable, refused, taken},
    call::HttpCall,
    error::ApiError,
    models::Lease,
    run::{AnswerJob, Split, Wishes},
};
use axum::response::Response;
use lamina::sample::Value as SampleValue;
use std::time::{Duration, Instant};

/// Fields of everything that is answered here.
pub const ANSWER: &[FieldSpec] = &[
    taken("model", "name of the model or of an adapter"),
    taken("n_predict", "tokens at most; -1: to the end, 0: only the prompt is computed"),
    taken("max_tokens", "the same"),
    taken("stream", "the answer comes as it grows"),
    taken("return_tokens", "tokens of the answer"),
    taken("timings_per_token", "timings in every piece"),
    taken("response_fields", "paths of the fields that the answer has"),
    taken("t_max_predict_ms", "time after which the answer is cut"),
    taken("samplers", "names; those that are not listed are off"),
    taken("n_indent", "0: lines are not indented"),
    taken("return_progress", "a stream tells how much of the prompt is computed"),
];

/// Fields of the body.
pub const COMPLETION: FieldTable = FieldTable {
    name: "POST /completion",
    sampling: true,
    fields: &[
        taken("prompt", "a text, token ids, both mixed, or a list of these"),
        refused("image_data", "this model takes no pictures"),
    ],
    also: &[ANSWER],
};

/// The handler.
pub async fn completion(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COMPLETION).await?;
    let lease = call.model(&mut body).await?;
    let prompt = body.value("prompt").ok_or_else(|| ApiError::at("prompt", "prompt is missing"))?;
    let asked = Asked::read(&call, &mut body, &lease)?;
    call.finish(body);
    let prompts = call.prompts(&lease, prompt, "prompt").await?;
    answer(&call, lease, prompts, asked).await
}

/// What is asked for beside the prompt.
pub struct Asked {
    stream: bool,
    wishes: Wishes,
    told: Told,
}

impl Asked {
    /// Reads all fields but the prompt.
    ///
    /// # Errors
    /// When one has a wrong type or value.
    pub fn read(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<Asked, ApiError> {
        let stream = body.take("stream")?.unwrap_or(false);
        not_built(body)?;
        let biases = logit_bias(body, lease)?;
        let told = Told {
            tokens: body.take("return_tokens")?.unwrap_or(false),
            timings: body.take("timings_per_token")?.unwrap_or(false),
            fields: body.take("response_fields")?.unwrap_or_default(),
        };
        let progress = body.take("return_progress")?.unwrap_or(false);
        let n_predict = body.take::<i64>("n_predict")?.or(body.take("max_tokens")?);
        let cut: Option<f64> = body.take("t_max_predict_ms")?;
        let mut sampling = call.app.options.sampling.clone();
        samplers(body, &mut sampling)?;
        let mut wishes = call.options_from(body, lease, sampling)?;
        let generate = &mut wishes.generate;
        generate.progress = progress && stream;
        match n_predict {
            None => {}
            Some(n) => generate.max_tokens = usize::try_from(n).ok(),
        }
        if let Some(biases) = biases {
            let set = generate.sampling.set("logit_bias", SampleValue::Biases(biases));
            set.map_err(|e| ApiError::at("logit_bias", e.to_string()))?;
        }
        if let Some(ms) = cut.filter(|ms| *ms > 0.0) {
            let time = Duration::try_from_secs_f64(ms / 1e3);
            let time = time.map_err(|_| ApiError::at("t_max_predict_ms", "t_max_predict_ms is too large"))?;
            let own = Instant::now().checked_add(time);
            // The server's own limit is told as an error, this one cuts.
            if generate.terms.deadline.is_none_or(|limit| own.is_some_and(|own| own < limit)) {
                generate.terms.deadline = own;
                wishes.cut_at_deadline = true;
            }
        }
        known_seed(&mut wishes.generate.sampling);
        Ok(Asked { stream, wishes, told })
    }
}

/// Refuses fields whose effect is not built, unless they say that it is not wanted.
fn not_built(body: &mut Body) -> Result<(), ApiError> {
    match body.take::<u64>("n_indent")? {
        Some(n) if n > 0 => Err(ApiError::at("n_indent", "n_indent is not supported: leave it out")),
        _ => Ok(()),
    }
}

/// Answers prompts.
///
/// # Errors
/// Whatever is wrong with them.
pub async fn answer(
    call: &HttpCall,
    lease: Lease,
    prompts: Vec<Vec<u32>>,
    asked: Asked,
) -> Result<Response, ApiError> {
    let Asked { stream, wishes, told } = asked;
    let tokenizer = lease.live.model.tokenizer().cloned();
    let renderer = NativeRenderer::new(lease.name(), tokenizer, &prompts, &wishes, told, stream);
    let job = AnswerJob { lease, prompts, wishes, split: Split::Plain };
    call.answer(job, stream, renderer).await
}
