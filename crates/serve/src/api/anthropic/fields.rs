//! Fields of Anthropic's bodies.

use crate::body::{FieldSpec, FieldTable, harmless, refused, taken};

const MODEL: FieldSpec = taken("model", "name of the model or of an adapter");
const SYSTEM: FieldSpec =
    taken("system", "what the model is told before the conversation: a text or text blocks");
const TURNS: FieldSpec = taken("messages", "the conversation");
const TOOLS: FieldSpec = taken("tools", "functions that the model may call");
const TOOL_CHOICE: FieldSpec = taken("tool_choice", "whether it calls them");
const THINKING: FieldSpec = taken("thinking", "enabled, disabled or adaptive, and for how many tokens");
const OUTPUT: FieldSpec = taken("output_config", "what form the answer has");
const OLD_OUTPUT: FieldSpec = taken("output_format", "older clients' word for output_config.format");
const SPEED: FieldSpec = harmless("speed", "there is one speed");
const CACHE: FieldSpec = harmless("cache_control", "computed beginnings are found by their content");
const USER: FieldSpec = harmless("user_profile_id", "machine time is counted for keys");
const WORKSPACE: FieldSpec = harmless("workspace_id", "machine time is counted for keys");
const CONTEXT: FieldSpec = harmless("context_management", "a conversation is never cut");
const SERVERS: FieldSpec = refused("mcp_servers", "only the caller's own tools are called");

/// POST /v1/messages.
pub const MESSAGES: FieldTable = FieldTable {
    name: "POST /v1/messages",
    sampling: false,
    fields: &[
        MODEL,
        TURNS,
        SYSTEM,
        taken("max_tokens", "tokens at most"),
        taken("stop_sequences", "up to 16 texts that end the answer"),
        taken("stream", "the answer comes as it grows"),
        taken("temperature", "a sampling parameter"),
        taken("top_p", "a sampling parameter"),
        taken("top_k", "a sampling parameter"),
        TOOLS,
        TOOL_CHOICE,
        THINKING,
        OUTPUT,
        OLD_OUTPUT,
        harmless("metadata", "machine time is counted for keys"),
        harmless("service_tier", "there is one tier"),
        harmless("inference_geo", "this machine answers"),
        harmless("diagnostics", "nothing is added to the answer"),
        SPEED,
        CACHE,
        USER,
        WORKSPACE,
        CONTEXT,
        SERVERS,
        refused("container", "there are no tools that run here"),
    ],
};

/// POST /v1/messages/count_tokens.
pub const COUNT: FieldTable = FieldTable {
    name: "POST /v1/messages/count_tokens",
    sampling: false,
    fields: &[
        MODEL,
        TURNS,
        SYSTEM,
        TOOLS,
        TOOL_CHOICE,
        THINKING,
        OUTPUT,
        OLD_OUTPUT,
        SPEED,
        CACHE,
        USER,
        WORKSPACE,
        CONTEXT,
        SERVERS,
    ],
};

/// `output_config`.
pub const OUTPUT_CONFIG: FieldTable = FieldTable {
    name: "output_config",
    sampling: false,
    fields: &[
        harmless("effort", "how long the model reasons is its own affair"),
        taken("format", "what form the answer has"),
        refused("task_budget", "use max_tokens"),
    ],
};

/// `thinking`.
pub const THINKING_CONFIG: FieldTable = FieldTable {
    name: "thinking",
    sampling: false,
    fields: &[
        taken("type", "enabled, disabled or adaptive"),
        taken("budget_tokens", "tokens of reasoning at most"),
        harmless("display", "reasoning is always shown"),
    ],
};
