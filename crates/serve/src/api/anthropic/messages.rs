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
    let prompt = call.chat(&lease, turn).await?;
    let renderer = MessageRenderer::new(lease.name(), &call.id);
    let job = AnswerJob { lease, prompts: vec![prompt.tokens], wishes, split: prompt.split };
    call.answer(job, stream, renderer).await
}

/// The handler that counts.
pub async fn count_tokens(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COUNT).await?;
    let lease = call.model(&mut body).await?;
    form(&call, &mut body)?;
    let turn = turn(&call, &mut body)?;
    let prompt = call.chat(&lease, turn).await?;
    Ok(json_response(&json!({"input_tokens": prompt.tokens.len()})))
}

/// The conversation, and what the model may do in it.
fn turn(call: &HttpCall, body: &mut Body) -> Result<ChatTurn, ApiError> {
    let messages = conversation(body.value("system"), body.need("messages")?)?;
    let tools = Some(tools(body.take("tools")?.unwrap_or_default())?).filter(|tools| !tools.is_empty());
    let choice = body.value("tool_choice").unwrap_or_else(|| json!({"type": "auto"}));
    let one_call = choice["disable_parallel_tool_use"] == true;
    let choice = tool_choice(&choice)?;
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

fn tool_choice(choice: &Value) -> Result<ToolChoice, ApiError> {
    match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("any"), _) => Ok(ToolChoice::Required),
        (Some("tool"), Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        (Some("tool"), None) => Err(ApiError::at("tool_choice.name", "tool_choice.name is missing")),
        _ => Err(ApiError::at("tool_choice.type", "tool_choice.type must be auto, any, tool or none")),
    }
}

/// The form of the answer.
fn form(call: &HttpCall, body: &mut Body) -> Result<Option<WantedForm>, ApiError> {
    let older = body.value("output_format").map(|format| (format, "output_format"));
    let config = call.nested(body, "output_config", &OUTPUT_CONFIG)?;
    let newer =
        config.and_then(|mut config| config.value("format")).map(|format| (format, "output_config.format"));
    match newer.or(older) {
        None => Ok(None),
        Some((mut format, path)) if format["type"] == "json_schema" => match format["schema"].take() {
            Value::Null => Err(ApiError::at(format!("{path}.schema"), format!("{path}.schema is missing"))),
            schema => Ok(Some(WantedForm::schema(format!("{path}.schema"), schema))),
        },
        Some((_, path)) => {
            let path = format!("{path}.type");
            Err(ApiError::at(&path, format!("{path} must be json_schema")))
        }
    }
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
    if mode != ReasoningMode::Template {
        variables.insert("enable_thinking".into(), json!(mode != ReasoningMode::Off));
    }
    Ok((mode, variables))
}
