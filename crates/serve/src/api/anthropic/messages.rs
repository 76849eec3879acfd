//! POST /v1/messages and /v1/messages/count_tokens.

use super::{
    conversation::{conversation, tools},
    fields::{CHOICE, COUNT, FORMAT, MESSAGES, OUTPUT_CONFIG, THINKING_CONFIG},
    render::MessageRenderer,
};
use crate::{
    body::{Body, texts},
    call::{ChatTurn, HttpCall, json_response},
    error::ApiError,
    run::{AnswerJob, WantedForm},
};
use axum::response::Response;
use lamina::{ReasoningMode, ToolChoice};
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
    let form = form(&call, &mut body)?;
    let turn = turn(&call, &mut body)?;
    let mut wishes = call.options(&mut body, &lease)?;
    wishes.generate.max_tokens = Some(max_tokens);
    wishes.generate.stop = stop;
    wishes.form = form;
    call.finish(body);
    let prompt = call.chat(&lease, turn).await?;
    let renderer = MessageRenderer::new(lease.name(), &call.id);
    let job = AnswerJob { lease, prompts: vec![prompt.prompt], wishes, split: prompt.split };
    call.answer(job, stream, renderer).await
}

/// The handler that counts.
pub async fn count_tokens(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COUNT).await?;
    let lease = call.model(&mut body).await?;
    form(&call, &mut body)?;
    let turn = turn(&call, &mut body)?;
    call.finish(body);
    let prompt = call.chat(&lease, turn).await?;
    Ok(json_response(&json!({"input_tokens": prompt.prompt.tokens.len()})))
}

/// The conversation, and what the model may do in it.
fn turn(call: &HttpCall, body: &mut Body) -> Result<ChatTurn, ApiError> {
    let messages = conversation(body.value("system"), body.need("messages")?)?;
    let tools = Some(tools(body.take("tools")?.unwrap_or_default())?).filter(|tools| !tools.is_empty());
    let (choice, one_call) = match call.nested(body, "tool_choice", &CHOICE)? {
        None => (ToolChoice::Auto, false),
        Some(mut choice) => {
            let one_call = choice.take("disable_parallel_tool_use")?.unwrap_or(false);
            let read = tool_choice(&mut choice)?;
            call.finish(choice);
            (read, one_call)
        }
    };
    let (reasoning, variables) = thinking(call, body)?;
    Ok(ChatTurn {
        messages,
        tools,
        choice,
        one_call,
        reasoning,
        variables,
        path: "messages",
        ..ChatTurn::default()
    })
}

fn tool_choice(choice: &mut Body) -> Result<ToolChoice, ApiError> {
    match choice.need::<String>("type")?.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "any" => Ok(ToolChoice::Required),
        "tool" => Ok(ToolChoice::Named(choice.need("name")?)),
        _ => Err(ApiError::at("tool_choice.type", "tool_choice.type must be auto, any, tool or none")),
    }
}

/// The form of the answer.
fn form(call: &HttpCall, body: &mut Body) -> Result<Option<WantedForm>, ApiError> {
    let older = call.nested(body, "output_format", &FORMAT)?;
    let newer = match call.nested(body, "output_config", &OUTPUT_CONFIG)? {
        Some(mut config) => call.nested(&mut config, "format", &FORMAT)?,
        None => None,
    };
    let Some(mut format) = newer.or(older) else { return Ok(None) };
    if format.need::<String>("type")? != "json_schema" {
        let path = format.path("type");
        return Err(ApiError::at(&path, format!("{path} must be json_schema")));
    }
    let path = format.path("schema");
    Ok(Some(WantedForm::schema(path, format.need("schema")?)))
}

/// Whether the model reasons and how long; adaptive leaves it to the template.
fn thinking(call: &HttpCall, body: &mut Body) -> Result<(ReasoningMode, Map<String, Value>), ApiError> {
    let mut variables = Map::new();
    let Some(mut config) = call.nested(body, "thinking", &THINKING_CONFIG)? else {
        return Ok((ReasoningMode::Template, variables));
    };
    let budget: Option<usize> = config.take("budget_tokens")?;
    let mode = match config.need::<String>("type")?.as_str() {
        "adaptive" => ReasoningMode::Template,
        "enabled" => budget.map_or(ReasoningMode::On, ReasoningMode::Budget),
        "disabled" => ReasoningMode::Off,
        _ => {
            let text = "thinking.type must be enabled, disabled or adaptive";
            return Err(ApiError::at("thinking.type", text));
        }
    };
    call.finish(config);
    if mode != ReasoningMode::Template {
        variables.insert("enable_thinking".into(), json!(mode != ReasoningMode::Off));
    }
    Ok((mode, variables))
}
