//! POST /api/generate.

use super::{
    answer_render::{AnswerForm, AnswerRenderer},
    fields::GENERATE,
    request::{images_of, keep_alive, thinking, unloads, wishes, with_images},
    words::ReplyHead,
};
use crate::{
    body::Body,
    call::{ChatTurn, GapText, HttpCall, PromptTokens, json_response},
    error::ApiError,
    models::Lease,
    run::{AnswerJob, Split},
};
use axum::response::Response;
use lamina::Special;
use serde_json::{Value, json};

/// The handler.
pub async fn generate(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&GENERATE).await?;
    let lease = call.model(&mut body).await?;
    let prompt: String = body.take("prompt")?.unwrap_or_default();
    let head = ReplyHead::new(lease.name());
    if prompt.is_empty() {
        let reason = if unloads(keep_alive(&mut body, &lease)?) { "unload" } else { "load" };
        let mut object = head.loaded(reason);
        object.insert("response".to_owned(), json!(""));
        call.finish(body);
        return Ok(json_response(&Value::Object(object)));
    }
    let stream = body.take("stream")?.unwrap_or(true);
    let wishes = wishes(&call, &mut body, &lease)?;
    let tokenizer = wishes.generate.sampling.logprobs.count.and(lease.live.model.tokenizer().cloned());
    let prompt = tokens(&call, &lease, &mut body, prompt).await?;
    call.finish(body);
    let job = AnswerJob { lease, prompts: vec![prompt.prompt], wishes, split: prompt.split };
    call.answer(job, stream, AnswerRenderer::new(AnswerForm::Generate, head, tokenizer)).await
}

/// The prompt as one turn of the template, or as it is where that is asked for or there is no template.
async fn tokens(
    call: &HttpCall,
    lease: &Lease,
    body: &mut Body,
    prompt: String,
) -> Result<PromptTokens, ApiError> {
    let raw = body.take("raw")?.unwrap_or(false);
    let images = body.value("images").filter(|images| images.as_array().is_none_or(|list| !list.is_empty()));
    let (reasoning, variables) = thinking(body)?;
    let system: Option<String> = body.take::<String>("system")?.filter(|s| !s.is_empty());
    if let Some(behind) = body.take::<String>("suffix")?.filter(|s| !s.is_empty()) {
        if system.is_some() {
            return Err(ApiError::at("system", "system has no place in a text with a suffix"));
        }
        if images.is_some() {
            return Err(ApiError::at("images", "images have no place in a text with a suffix"));
        }
        let gap = GapText { before: prompt, behind, ..GapText::default() };
        let tokens = call.infill(lease, gap).await.map_err(|e| e.of("suffix"))?;
        return Ok(PromptTokens { prompt: tokens.into(), split: Split::Plain });
    }
    if raw && system.is_some() {
        return Err(ApiError::at("system", "system has no place in a raw prompt: write it there"));
    }
    if raw || lease.live.template().is_empty() {
        let text = system.map_or_else(|| prompt.clone(), |s| format!("{s}\n\n{prompt}"));
        let sent = images_of(images, "images")?;
        let prompt = match sent.is_empty() {
            true => call.text(lease, text, Special { add: true, parse: raw }).await?.into(),
            false => call.seen_text(lease, text, sent, "prompt").await?,
        };
        return Ok(PromptTokens { prompt, split: Split::Plain });
    }
    let system = system.map(|text| json!({"role": "system", "content": text}));
    let said = with_images(prompt.into(), images, "images")?;
    let messages = system.into_iter().chain([json!({"role": "user", "content": said})]).collect();
    call.chat(lease, ChatTurn { messages, reasoning, variables, path: "prompt", ..ChatTurn::default() }).await
}
