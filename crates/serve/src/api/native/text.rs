//! Texts to tokens and back, and conversations to texts.

use crate::{
    body::{Body, FieldTable, refused, taken},
    call::{ChatTurn, HttpCall, json_response, pooled},
    error::ApiError,
    models::Lease,
};
use axum::response::Response;
use lamina::{Markers, Special};
use serde_json::{Value, json};

/// Fields of POST /tokenize: llama-server's, and vLLM's.
pub const TOKENIZE: FieldTable = FieldTable {
    name: "POST /tokenize",
    sampling: false,
    fields: &[
        taken("content", "the text"),
        taken("prompt", "the text, as vLLM calls it"),
        taken("messages", "a conversation instead of a text"),
        taken("model", "name of the model"),
        taken("add_special", "tokens around the text are added; false for content, true for prompt"),
        taken("add_special_tokens", "the same"),
        taken("parse_special", "special tokens in the text are read [default: true]"),
        taken("with_pieces", "tokens come with their texts"),
        taken("return_token_strs", "the texts of tokens come too"),
        taken("tools", "tools of the conversation"),
        taken("chat_template_kwargs", "variables of the template"),
        taken("add_generation_prompt", "false: the text does not end where an answer begins"),
    ],
    also: &[],
};

/// Fields of POST /detokenize.
pub const DETOKENIZE: FieldTable = FieldTable {
    name: "POST /detokenize",
    sampling: false,
    fields: &[taken("tokens", "token ids"), taken("model", "name of the model")],
    also: &[],
};

/// Fields of POST /apply-template.
pub const TEMPLATE: FieldTable = FieldTable {
    name: "POST /apply-template",
    sampling: true,
    fields: &[
        taken("messages", "the conversation"),
        taken("model", "name of the model"),
        taken("tools", "tools that the model may call"),
        taken("chat_template_kwargs", "variables of the template"),
        taken("add_generation_prompt", "false: the text does not end where an answer begins"),
        refused("chat_template", "templates are set when the server starts"),
    ],
    also: &[],
};

/// POST /tokenize.
pub async fn tokenize(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&TOKENIZE).await?;
    let lease = call.model(&mut body).await?;
    let pieces = body.take("with_pieces")?.unwrap_or(false);
    let texts = body.take("return_token_strs")?.unwrap_or(false);
    let ids = match body.has("messages") {
        true => call.chat(&lease, turn(&mut body)?).await?.prompt.tokens,
        false => plain(&call, &mut body, &lease).await?,
    };
    call.finish(body);
    let model = &lease.live.model;
    let text = |id: u32| model.tokenizer().and_then(|t| t.token_bytes(id)).unwrap_or_default().to_vec();
    let piece = |id: &u32| {
        let bytes = text(*id);
        // Bytes that are no text by themselves come as numbers.
        json!({ "id": id, "piece": String::from_utf8(bytes).map_or_else(|e| json!(e.into_bytes()), Value::from) })
    };
    let tokens: Value = if pieces { ids.iter().map(piece).collect() } else { json!(ids) };
    let mut answer = json!({ "tokens": tokens, "count": ids.len(), "max_model_len": model.info().context });
    if texts {
        answer["token_strs"] =
            ids.iter().map(|&id| String::from_utf8_lossy(&text(id)).into_owned()).collect();
    }
    Ok(json_response(&answer))
}

async fn plain(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<Vec<u32>, ApiError> {
    let (name, usual) = if body.has("prompt") { ("prompt", true) } else { ("content", false) };
    let text: String = body.need(name)?;
    let add = body.take("add_special")?.or(body.take("add_special_tokens")?).unwrap_or(usual);
    let parse = body.take("parse_special")?.unwrap_or(true);
    call.any_text(lease, text, Special { add, parse }).await
}

/// POST /detokenize.
pub async fn detokenize(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&DETOKENIZE).await?;
    let lease = call.model(&mut body).await?;
    let tokens: Vec<u32> = body.need("tokens")?;
    call.finish(body);
    let model = lease.live.model.clone();
    let decode = move || {
        let decoded = model.need_tokenizer()?.decode_with(&tokens, Markers::Show);
        decoded.map_err(|e| ApiError::at("tokens", e.to_string()))
    };
    let text = pooled(decode).await?;
    Ok(json_response(&json!({ "content": text, "prompt": text })))
}

/// POST /apply-template.
pub async fn apply_template(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&TEMPLATE).await?;
    let lease = call.model(&mut body).await?;
    let turn = turn(&mut body)?;
    call.finish(body);
    let text = call.rendered(&lease, turn).await?;
    Ok(json_response(&json!({ "prompt": text })))
}

fn turn(body: &mut Body) -> Result<ChatTurn, ApiError> {
    Ok(ChatTurn {
        messages: body.need("messages")?,
        tools: body.take("tools")?,
        variables: body.take("chat_template_kwargs")?.unwrap_or_default(),
        no_generation_prompt: !body.take("add_generation_prompt")?.unwrap_or(true),
        path: "messages",
        ..ChatTurn::default()
    })
}
