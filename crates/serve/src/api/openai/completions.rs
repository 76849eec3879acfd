//! POST /v1/completions.

use super::{
    beams::{self, BEAMS},
    chat::{service_tier, set_limits, stream_usage},
    completion_render::CompletionRenderer,
    words::{AnswerHead, HARMLESS},
};
use crate::{
    body::{FieldTable, taken},
    call::{GapText, HttpCall},
    error::ApiError,
    models::Lease,
    run::{AnswerJob, JobPrompt, Split},
};
use axum::response::Response;
use serde_json::Value;

/// Fields of the body.
pub const COMPLETION: FieldTable = FieldTable {
    name: "POST /v1/completions",
    sampling: true,
    fields: &[
        taken("prompt", "a text, texts, token ids, {prompt_string, multimodal_data}, or lists of them"),
        taken("model", "name of the model or of an adapter"),
        taken("max_tokens", "tokens at most; 0: only the prompt is computed"),
        taken("suffix", "text behind the answer"),
        taken("echo", "the prompt stands before the answer"),
        taken("best_of", "so many answers are made, and the n most likely are given"),
        taken("logprobs", "from 0 to 20: logprobs, with so many of the most likely tokens beside each"),
        taken("stream", "the answer comes as it grows"),
        taken("stream_options", "what a stream tells beside the answer"),
        taken("service_tier", "auto, default, or flex: later than others"),
    ],
    also: &[HARMLESS, BEAMS],
};

/// Tokens of an answer where nobody says: OpenAI's default for this endpoint.
const MAX_TOKENS: usize = 16;

/// The handler.
pub async fn completions(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COMPLETION).await?;
    let lease = call.model(&mut body).await?;
    let stream = body.take("stream")?.unwrap_or(false);
    let usage = stream_usage(&call, &mut body, stream)?;
    let logprobs: Option<u32> = body.take("logprobs")?;
    if logprobs.is_some_and(|n| n > 20) {
        return Err(ApiError::at("logprobs", "logprobs must be from 0 to 20"));
    }
    let suffix = body.take::<String>("suffix")?.filter(|s| !s.is_empty());
    let echo = body.take("echo")?.unwrap_or(false);
    let max_tokens = body.take("max_tokens")?.or(call.app.options.max_tokens).unwrap_or(MAX_TOKENS);
    let flex = service_tier(&mut body)?;
    let best_of: Option<usize> = body.take("best_of")?;
    let prompt = body.value("prompt").ok_or_else(|| ApiError::at("prompt", "prompt is missing"))?;
    let mut wishes = call.options(&mut body, &lease)?;
    set_limits(&mut wishes, Some(max_tokens), flex);
    wishes.generate.echo = echo;
    wishes.generate.sampling.logprobs.count = logprobs;
    beams::search(&mut body, &mut wishes, best_of, stream)?;
    // A search gives the likeliest by itself.
    let best_of = best_of.filter(|_| wishes.generate.beams.is_none());
    let given = check_best_of(best_of, wishes.generate.n, stream)?;
    call.finish(body);
    let prompts = prompts(&call, &lease, prompt, suffix).await?;
    let n = wishes.generate.n;
    if given > n {
        // Answers are compared by the logprobs of their tokens.
        wishes.generate.n = given;
        wishes.generate.sampling.logprobs.count = Some(logprobs.unwrap_or(0));
    }
    let head = AnswerHead::new("cmpl-", lease.name(), &lease.live.fingerprint);
    let tokenizer = lease.live.model.tokenizer().cloned();
    let tokens: Vec<Vec<u32>> = prompts.iter().map(|prompt| prompt.tokens.clone()).collect();
    let soft = prompts.iter().any(|p| !p.media.is_empty()).then(|| lease.live.model.soft_tokens());
    let renderer = CompletionRenderer::new(head, tokenizer, &wishes, usage)
        .logprobs(logprobs.is_some())
        .best(n)
        .prompts(&tokens, echo)
        .soft(soft.unwrap_or_default());
    let job = AnswerJob { lease, prompts, wishes, split: Split::Plain };
    call.answer(job, stream, renderer).await
}

/// The prompts; one that is a text, if a text is to follow the answer.
async fn prompts(
    call: &HttpCall,
    lease: &Lease,
    prompt: Value,
    suffix: Option<String>,
) -> Result<Vec<JobPrompt>, ApiError> {
    let Some(behind) = suffix else { return call.seen_prompts(lease, prompt, "prompt").await };
    let Value::String(before) = prompt else {
        return Err(ApiError::at("prompt", "prompt must be one text where there is a suffix"));
    };
    let gap = GapText { before, behind, ..GapText::default() };
    Ok(vec![call.infill(lease, gap).await.map_err(|e| e.of("suffix"))?.into()])
}

fn check_best_of(best_of: Option<usize>, n: usize, stream: bool) -> Result<usize, ApiError> {
    let best_of = best_of.unwrap_or(n);
    if best_of < n || (stream && best_of > n) {
        let text = format!("best_of is {best_of}, but must be {n} in a stream, and at least {n} without");
        return Err(ApiError::at("best_of", text));
    }
    Ok(best_of)
}
