//! POST /v1/chat/completions.

use super::{
    beams::{self, BEAMS},
    chat_render::ChatRenderer,
    tools::{self, AskedTools},
    words::{AnswerHead, HARMLESS, StreamUsage},
};
use crate::{
    body::{Body, FieldSpec, FieldTable, FieldUsage, harmless, refused, taken},
    call::{ChatTurn, HttpCall},
    error::ApiError,
    run::{AnswerJob, Wishes},
};
use axum::response::Response;
use lamina::ReasoningMode;
use serde_json::Value;

/// Fields of the body.
pub const CHAT: FieldTable = FieldTable {
    name: "POST /v1/chat/completions",
    sampling: true,
    fields: &[
        taken(
            "messages",
            "the conversation: texts, pictures as parts of type image_url, sounds as parts of type input_audio",
        ),
        taken("model", "name of the model or of an adapter"),
        taken("max_tokens", "tokens at most"),
        taken("max_completion_tokens", "tokens at most"),
        taken("stream", "the answer comes as it grows"),
        taken("stream_options", "what a stream tells beside the answer"),
        taken("logprobs", "true: logprobs of the answer's tokens"),
        taken("top_logprobs", "from 0 to 20: so many of the most likely tokens beside each"),
        taken("tools", "functions that the model may call"),
        taken("tool_choice", "whether it calls them"),
        taken("parallel_tool_calls", "whether it calls several at once"),
        taken("reasoning_effort", "a variable of the template; none: the model does not reason"),
        taken("reasoning_budget", "tokens of reasoning at most"),
        taken("chat_template_kwargs", "variables of the template"),
        taken("add_generation_prompt", "false: the prompt does not end where an answer begins"),
        taken("service_tier", "auto, default, or flex: later than others"),
        taken("modalities", "[\"text\"]"),
        taken("store", "false"),
        harmless("verbosity", "the model has no such setting"),
        harmless("prediction", "drafts do not change answers"),
        harmless("moderation", "nothing is moderated"),
        refused("audio", "answers are text"),
        refused("web_search_options", "there is no search"),
        refused("functions", "use tools"),
        refused("function_call", "use tool_choice"),
    ],
    also: &[HARMLESS, BEAMS],
};

/// Fields of `stream_options`.
pub const STREAM: FieldTable = FieldTable {
    name: "stream_options",
    sampling: false,
    fields: &[
        taken("include_usage", "a last chunk has the usage"),
        taken("continuous_usage_stats", "every chunk has the usage so far"),
        FieldSpec {
            name: "include_obfuscation",
            usage: FieldUsage::Harmless,
            doc: "lengths of chunks are those of tokens",
        },
    ],
    also: &[],
};

/// The handler.
pub async fn chat(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&CHAT).await?;
    let lease = call.model(&mut body).await?;
    let stream = body.take("stream")?.unwrap_or(false);
    let usage = stream_usage(&call, &mut body, stream)?;
    let logprobs = logprobs(&mut body)?;
    text_only(&mut body)?;
    let turn = turn(&mut body)?;
    let max_tokens = max_tokens(&mut body)?;
    let flex = service_tier(&mut body)?;
    let mut wishes = call.options(&mut body, &lease)?;
    set_limits(&mut wishes, max_tokens, flex);
    wishes.generate.sampling.logprobs.count = logprobs;
    let best_of = body.take("best_of")?;
    beams::search(&mut body, &mut wishes, best_of, stream)?;
    if best_of.is_some_and(|best| best != wishes.generate.n) && wishes.generate.beams.is_none() {
        return Err(ApiError::at("best_of", "best_of needs use_beam_search"));
    }
    call.finish(body);
    let prompt = call.chat(&lease, turn).await?;
    let head = AnswerHead::new("chatcmpl-", lease.name(), &lease.live.fingerprint);
    let renderer = ChatRenderer::new(head, lease.live.model.tokenizer().cloned(), &wishes, usage);
    let job = AnswerJob { lease, prompts: vec![prompt.prompt], wishes, split: prompt.split };
    call.answer(job, stream, renderer).await
}

/// What a stream tells of its usage.
pub fn stream_usage(call: &HttpCall, body: &mut Body, stream: bool) -> Result<StreamUsage, ApiError> {
    let Some(mut options) = call.nested(body, "stream_options", &STREAM)? else {
        return Ok(StreamUsage::Never);
    };
    if !stream {
        return Err(ApiError::at("stream_options", "stream_options needs stream true"));
    }
    let at_end = options.take("include_usage")?.unwrap_or(false);
    let always = options.take("continuous_usage_stats")?.unwrap_or(false);
    Ok(match (at_end, always) {
        (false, _) => StreamUsage::Never,
        (true, false) => StreamUsage::AtEnd,
        (true, true) => StreamUsage::Always,
    })
}

/// How many of the most likely tokens are told; none: no logprobs.
fn logprobs(body: &mut Body) -> Result<Option<u32>, ApiError> {
    let wanted = body.take("logprobs")?.unwrap_or(false);
    match body.take::<u32>("top_logprobs")? {
        Some(n) if n > 20 => Err(ApiError::at("top_logprobs", "top_logprobs must be from 0 to 20")),
        Some(n) if n > 0 && !wanted => Err(ApiError::at("top_logprobs", "top_logprobs needs logprobs true")),
        top => Ok(wanted.then(|| top.unwrap_or(0))),
    }
}

/// Fields that only some of their values are harmless of.
fn text_only(body: &mut Body) -> Result<(), ApiError> {
    let modalities: Option<Vec<String>> = body.take("modalities")?;
    if modalities.is_some_and(|m| m.iter().any(|m| m != "text")) {
        return Err(ApiError::at("modalities", "modalities must be [\"text\"]: answers are text"));
    }
    if body.take::<bool>("store")? == Some(true) {
        body.ignore("store");
    }
    Ok(())
}

/// The conversation and what its template is told.
fn turn(body: &mut Body) -> Result<ChatTurn, ApiError> {
    let mut variables: serde_json::Map<String, Value> =
        body.take("chat_template_kwargs")?.unwrap_or_default();
    let effort: Option<String> = body.take("reasoning_effort")?;
    let reasoning = reasoning(effort.as_deref(), body.take("reasoning_budget")?);
    if let Some(effort) = effort {
        variables.entry("reasoning_effort").or_insert(effort.into());
    }
    let AskedTools { tools, choice, one_call } = tools::read(body, false)?;
    Ok(ChatTurn {
        messages: body.need("messages")?,
        tools,
        choice,
        one_call,
        variables,
        reasoning,
        no_generation_prompt: !body.take("add_generation_prompt")?.unwrap_or(true),
        path: "messages",
    })
}

/// Whether the model reasons, and how long.
pub fn reasoning(effort: Option<&str>, budget: Option<usize>) -> ReasoningMode {
    match (effort, budget) {
        (_, Some(0)) | (Some("none"), None) => ReasoningMode::Off,
        (_, Some(budget)) => ReasoningMode::Budget(budget),
        (_, None) => ReasoningMode::Template,
    }
}

fn max_tokens(body: &mut Body) -> Result<Option<usize>, ApiError> {
    let old = body.take("max_tokens")?;
    let new = body.take("max_completion_tokens")?;
    match (old, new) {
        (Some(a), Some(b)) if a != b => Err(ApiError::at(
            "max_tokens",
            "max_tokens and max_completion_tokens are the same: give one of them",
        )),
        (old, new) => Ok(new.or(old)),
    }
}

/// True for requests that may wait.
pub fn service_tier(body: &mut Body) -> Result<bool, ApiError> {
    match body.take::<String>("service_tier")?.as_deref() {
        None => Ok(false),
        Some("flex") => Ok(true),
        Some("auto" | "default") => {
            body.ignore("service_tier");
            Ok(false)
        }
        Some(_) => Err(ApiError::at("service_tier", "service_tier must be auto, default or flex")),
    }
}

/// Priority of a request that may wait.
const FLEX: i32 = 10;

/// Limits that were read before the common fields.
pub fn set_limits(wishes: &mut Wishes, max_tokens: Option<usize>, flex: bool) {
    if max_tokens.is_some() {
        wishes.generate.max_tokens = max_tokens;
    }
    if flex && wishes.generate.terms.priority == 0 {
        wishes.generate.terms.priority = FLEX;
    }
}
