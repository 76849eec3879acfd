//! POST /v1/responses, and what was kept of it.

use super::{
    chat::{reasoning, service_tier, set_limits},
    response_input::ResponseInput,
    response_items::Echoing,
    response_render::{Keeping, ResponseRenderer},
    tools::{self, AskedTools},
    words::HARMLESS,
};
use crate::{
    body::{Body, FieldTable, harmless, refused, taken},
    call::{ChatTurn, HttpCall, json_response, response_format},
    error::{ApiError, Cause},
    run::{AnswerJob, WantedForm},
};
use axum::response::Response;
use serde_json::{Map, Value, json};

/// Fields of the body.
pub const RESPONSES: FieldTable = FieldTable {
    name: "POST /v1/responses",
    sampling: true,
    fields: &[
        taken(
            "input",
            "a text, or items of a conversation: texts, pictures as parts of type input_image, sounds as parts of type input_audio",
        ),
        taken("model", "name of the model or of an adapter"),
        taken("instructions", "a system message for this answer"),
        taken("max_output_tokens", "tokens at most"),
        taken("stream", "the answer comes as it grows"),
        taken("tools", "functions that the model may call"),
        taken("tool_choice", "whether it calls them"),
        taken("parallel_tool_calls", "whether it calls several at once"),
        taken("text", "what form the answer has"),
        taken("reasoning", "effort: a variable of the template"),
        taken("previous_response_id", "the conversation goes on from this answer"),
        taken("store", "false: the answer is not kept"),
        taken(
            "top_logprobs",
            "from 0 to 20: so many of the most likely tokens, where include asks for logprobs",
        ),
        taken("include", "message.output_text.logprobs"),
        taken("metadata", "is kept with the answer"),
        taken("truncation", "disabled"),
        taken("service_tier", "auto, default, or flex: later than others"),
        taken("chat_template_kwargs", "variables of the template"),
        taken("background", "false"),
        harmless("stream_options", "lengths of events are those of tokens"),
        harmless("verbosity", "the model has no such setting"),
        harmless("client_metadata", "nobody is told who asks"),
        refused("conversation", "conversations are not kept: use previous_response_id"),
        refused("prompt", "there are no stored prompts: use instructions and input"),
        refused("max_tool_calls", "there are no tools of the server's own"),
        refused("context_management", "a conversation is never cut"),
        refused("logprobs", "use include and top_logprobs"),
        refused("stop", "this endpoint has none: use /v1/chat/completions"),
        refused("n", "this endpoint gives one answer: use /v1/chat/completions"),
    ],
    also: &[HARMLESS],
};

/// Fields of `text`.
pub const TEXT: FieldTable = FieldTable {
    name: "text",
    sampling: false,
    fields: &[
        taken("format", "form of the answer: text, json_object or json_schema"),
        harmless("verbosity", "the model has no such setting"),
    ],
    also: &[],
};

/// Fields of `reasoning`.
pub const REASONING: FieldTable = FieldTable {
    name: "reasoning",
    sampling: false,
    fields: &[
        taken("effort", "a variable of the template; none: the model does not reason"),
        harmless("summary", "reasoning is told as it is"),
        harmless("generate_summary", "reasoning is told as it is"),
    ],
    also: &[],
};

/// Where logprobs are asked for.
const LOGPROBS: &str = "message.output_text.logprobs";
/// What may be included and is there anyway, or never.
const HARMLESS_INCLUDES: &[&str] = &["reasoning.encrypted_content", "message.input_image.image_url"];

/// POST /v1/responses.
pub async fn create(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&RESPONSES).await?;
    let lease = call.model(&mut body).await?;
    let stream = body.take("stream")?.unwrap_or(false);
    let mut echoed = Echoing::new(&body);
    not_built(&mut body)?;
    let logprobs = logprobs(&mut body)?;
    let store = body.take("store")?.unwrap_or(true);
    echoed.metadata = body.take("metadata")?.unwrap_or_default();
    let form = form(&call, &mut body)?;
    let turn = turn(&call, &mut body)?;
    let conversation = conversation(&call, &mut body)?;
    let max_tokens: Option<usize> = body.take("max_output_tokens")?;
    let flex = service_tier(&mut body)?;
    let mut wishes = call.options(&mut body, &lease)?;
    set_limits(&mut wishes, max_tokens, flex);
    wishes.generate.sampling.logprobs.count = logprobs;
    wishes.ask_form(form)?;
    call.finish(body);
    echoed.settle(&wishes, lease.name());
    let prompt = call.chat(&lease, ChatTurn { messages: conversation.prompt(), ..turn }).await?;
    let tokenizer = lease.live.model.tokenizer().cloned();
    let kept = store.then(|| Keeping {
        app: call.app.clone(),
        log: call.log.clone(),
        tenant: call.caller.tenant.clone(),
        messages: conversation.messages,
        input: conversation.items,
    });
    let renderer = ResponseRenderer::new(echoed, tokenizer, logprobs.is_some(), kept);
    let job = AnswerJob { lease, prompts: vec![prompt.prompt], wishes, split: prompt.split };
    call.answer(job, stream, renderer).await
}

/// POST /v1/responses/input_tokens.
pub async fn input_tokens(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&RESPONSES).await?;
    let lease = call.model(&mut body).await?;
    not_built(&mut body)?;
    let turn = turn(&call, &mut body)?;
    let conversation = conversation(&call, &mut body)?;
    call.finish(body);
    let turn = ChatTurn { messages: conversation.prompt(), ..turn };
    let tokens = call.chat(&lease, turn).await?.prompt.tokens.len();
    Ok(json_response(&json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

/// Items of a list at most, and where a request does not say.
const MOST_LISTED: usize = 100;
const LISTED: usize = 20;

/// GET /v1/responses/{id}/input_items.
pub async fn input_items(call: HttpCall) -> Result<Response, ApiError> {
    let kept = call.app.kept.find(call.path("id"), &call.caller.tenant).ok_or_else(missing)?;
    let limit = match call.query("limit") {
        None => LISTED,
        Some(text) => text.parse().ok().filter(|n| (1..=MOST_LISTED).contains(n)).ok_or_else(|| {
            ApiError::at("limit", format!("limit must be a whole number from 1 to {MOST_LISTED}"))
        })?,
    };
    let mut items: Vec<&Value> = kept.input.iter().collect();
    match call.query("order").as_deref() {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(ApiError::at("order", "order must be asc or desc")),
    }
    if let Some(after) = call.query("after") {
        let at = items.iter().position(|item| item["id"] == *after);
        let at = at.ok_or_else(|| ApiError::at("after", "after must be the id of an item in the list"))?;
        items.drain(..=at);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    Ok(json_response(&json!({
        "object": "list",
        "first_id": id(items.first()),
        "last_id": id(items.last()),
        "has_more": more,
        "data": items,
    })))
}

/// GET /v1/responses/{id}.
pub async fn retrieve(call: HttpCall) -> Result<Response, ApiError> {
    let found = call.app.kept.find(call.path("id"), &call.caller.tenant);
    found.map(|kept| json_response(&kept.body)).ok_or_else(missing)
}

/// DELETE /v1/responses/{id}.
pub async fn remove(call: HttpCall) -> Result<Response, ApiError> {
    let id = call.path("id");
    match call.app.kept.forget(id, &call.caller.tenant) {
        true => Ok(json_response(&json!({ "id": id, "object": "response", "deleted": true }))),
        false => Err(missing()),
    }
}

fn missing() -> ApiError {
    ApiError::new(Cause::NoPath, "there is no answer of this id: answers are kept for an hour")
}

/// The conversation so far and what is said now.
fn conversation(call: &HttpCall, body: &mut Body) -> Result<ResponseInput, ApiError> {
    let previous: Option<String> = body.take("previous_response_id")?;
    let before = match &previous {
        None => vec![],
        Some(id) => {
            let kept = call.app.kept.find(id, &call.caller.tenant);
            let kept = kept.ok_or_else(|| missing().of("previous_response_id"))?;
            kept.messages.iter().cloned().map(earlier).collect()
        }
    };
    let instructions = body.take("instructions")?;
    let input = body.value("input").ok_or_else(|| ApiError::at("input", "input is missing"))?;
    let mut conversation = ResponseInput { instructions, messages: before, ..ResponseInput::default() };
    conversation.read(input, |id| call.app.kept.item(id, &call.caller.tenant))?;
    call.name_ignored(std::mem::take(&mut conversation.ignored));
    Ok(conversation)
}

/// A message of an answer that is kept: what is wrong with a picture of it now is told of the answer's id.
fn earlier(mut message: Value) -> Value {
    let parts = message["content"].as_array_mut().into_iter().flatten();
    parts.filter(|part| part["at"].is_string()).for_each(|part| part["at"] = json!("previous_response_id"));
    message
}

/// Refuses what is not built.
fn not_built(body: &mut Body) -> Result<(), ApiError> {
    if body.take::<bool>("background")? == Some(true) {
        return Err(ApiError::at("background", "background true is not supported: use stream"));
    }
    if body.take::<String>("truncation")?.is_some_and(|t| t != "disabled") {
        return Err(ApiError::at("truncation", "truncation must be disabled: a conversation is never cut"));
    }
    Ok(())
}

/// The form that `text` asks for.
fn form(call: &HttpCall, body: &mut Body) -> Result<Option<WantedForm>, ApiError> {
    let text = call.nested(body, "text", &TEXT)?;
    let format = text.and_then(|mut text| text.value("format"));
    format.map_or(Ok(None), |format| response_format(format, "text.format"))
}

fn logprobs(body: &mut Body) -> Result<Option<u32>, ApiError> {
    let include: Vec<String> = body.take("include")?.unwrap_or_default();
    let known = |name: &String| name == LOGPROBS || HARMLESS_INCLUDES.contains(&name.as_str());
    if let Some(i) = include.iter().position(|name| !known(name)) {
        let path = format!("include[{i}]");
        return Err(ApiError::at(&path, format!("{path} is not supported; known: {LOGPROBS}")));
    }
    let top: Option<u32> = body.take("top_logprobs")?;
    if top.is_some_and(|n| n > 20) {
        return Err(ApiError::at("top_logprobs", "top_logprobs must be from 0 to 20"));
    }
    let wanted = include.iter().any(|name| name == LOGPROBS);
    if top.is_some() && !wanted {
        body.ignore("top_logprobs");
    }
    Ok(wanted.then(|| top.unwrap_or(0)))
}

/// All of the conversation but its messages.
fn turn(call: &HttpCall, body: &mut Body) -> Result<ChatTurn, ApiError> {
    let AskedTools { tools, choice, one_call } = tools::read(body, true)?;
    let mut variables: Map<String, Value> = body.take("chat_template_kwargs")?.unwrap_or_default();
    let asked = call.nested(body, "reasoning", &REASONING)?;
    let effort: Option<String> = asked.map_or(Ok(None), |mut asked| asked.take("effort"))?;
    let reasoning = reasoning(effort.as_deref(), None);
    if let Some(effort) = effort {
        variables.entry("reasoning_effort").or_insert(effort.into());
    }
    Ok(ChatTurn { tools, choice, one_call, variables, reasoning, path: "input", ..ChatTurn::default() })
}
