//! POST /v1/messages and /v1/messages/count_tokens.

use super::{
    conversation::{conversation, tools},
    fields::{COUNT, MESSAGES, OUTPUT_CONFIG, THINKING_CONFIG},
    render::MessageRenderer,
};
use crate::{
    body::{Body, texts},
    call::{ChatTurn, HttpCall, json_response},
    error::ApiError,
    run::AnswerJob,
};
use axum::response::Response;
use serde_json::{Map, Value, json};

/// The handler of messages.
pub async fn messages(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&MESSAGES).await?;
    let lease = call.model(&mut body).await?;
    let stream = body.take("stream")?.unwrap_or(false);
    let max_tokens: usize = body.need("max_tokens")?;
    if max_tokens == 0 {
        return Err(ApiError::at("max_tokens", "max_tokens must be at least 1"));
    }
    let stop = match body.value("stop_sequences") {
        Some(list) => texts(list, "stop_sequences")?,
        None => vec![],
    };
    let turn = turn(&call, &mut body)?;
    let mut wishes = call.options(&mut body, &lease)?;
    wishes.generate.max_tokens = Some(max_tokens);
    wishes.generate.stop = stop;
    let prompt = call.chat(&lease, turn).await?;
    let renderer = MessageRenderer::new(lease.name(), &call.id);
    let job = AnswerJob { lease, prompts: vec![prompt.tokens], wishes, split: prompt.split };
    call.answer(job, stream, renderer).await
}

/// The handler that counts.
pub async fn count_tokens(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COUNT).await?;
    let lease = call.model(&mut body).await?;
    let turn = turn(&call, &mut body)?;
    let prompt = call.chat(&lease, turn).await?;
    Ok(json_response(&json!({"input_tokens": prompt.tokens.len()})))
}

/// The conversation and what its template is told.
fn turn(call: &HttpCall, body: &mut Body) -> Result<ChatTurn, ApiError> {
    let messages = conversation(body.value("system"), body.need("messages")?)?;
    let tools = shown_tools(body)?;
    free_form(call, body)?;
    let variables = thinking(call, body)?;
    Ok(ChatTurn { messages, tools, variables, path: "messages", ..ChatTurn::default() })
}

/// Why some of it is refused: free text in its place would not be what was asked for.
const LATER: &str = "constrained answers are not built yet";

/// The tools that the model is shown.
fn shown_tools(body: &mut Body) -> Result<Option<Vec<Value>>, ApiError> {
    let tools = tools(body.take("tools")?.unwrap_or_default())?;
    let choice = body.value("tool_choice").unwrap_or_else(|| json!({"type": "auto"}));
    let shown = match choice["type"].as_str() {
        Some("auto") => !tools.is_empty(),
        Some("none") => false,
        _ => {
            let text = format!("tool_choice.type must be auto or none: {LATER}");
            return Err(ApiError::at("tool_choice", text));
        }
    };
    if shown && choice["disable_parallel_tool_use"] == true {
        let text = format!("tool_choice.disable_parallel_tool_use must be false: {LATER}");
        return Err(ApiError::at("tool_choice.disable_parallel_tool_use", text));
    }
    Ok(shown.then_some(tools))
}

/// Refuses forms of answers.
fn free_form(call: &HttpCall, body: &mut Body) -> Result<(), ApiError> {
    let Some(mut output) = call.nested(body, "output_config", &OUTPUT_CONFIG)? else { return Ok(()) };
    match output.value("format") {
        Some(_) => Err(ApiError::at("output_config.format", format!("output_config.format: {LATER}"))),
        None => Ok(()),
    }
}

/// Whether the model reasons, for templates that ask; adaptive leaves it to them.
fn thinking(call: &HttpCall, body: &mut Body) -> Result<Map<String, Value>, ApiError> {
    let mut variables = Map::new();
    let Some(mut config) = call.nested(body, "thinking", &THINKING_CONFIG)? else { return Ok(variables) };
    match config.need::<String>("type")?.as_str() {
        "adaptive" => {}
        "enabled" => _ = variables.insert("enable_thinking".into(), json!(true)),
        "disabled" => _ = variables.insert("enable_thinking".into(), json!(false)),
        _ => {
            let text = "thinking.type must be enabled, disabled or adaptive";
            return Err(ApiError::at("thinking.type", text));
        }
    }
    Ok(variables)
}
