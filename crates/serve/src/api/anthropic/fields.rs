//! Fields of Anthropic's bodies.

use crate::body::{FieldSpec, FieldTable, harmless, refused, taken};

/// What both bodies have.
const CONVERSATION: &[FieldSpec] = &[
    taken("model", "name of the model or of an adapter"),
    taken("messages", "the conversation: blocks of text, pictures, calls and their results"),
    taken("system", "what the model is told before the conversation: a text or text blocks"),
    taken("tools", "functions that the model may call"),
    taken("tool_choice", "whether it calls them"),
    taken("thinking", "enabled, disabled or adaptive, and for how many tokens"),
    taken("output_config", "what form the answer has"),
    taken("output_format", "older clients' word for output_config.format"),
    harmless("speed", "there is one speed"),
    harmless("cache_control", "computed beginnings are found by their content"),
    harmless("user_profile_id", "machine time is counted for keys"),
    harmless("workspace_id", "machine time is counted for keys"),
    harmless("context_management", "a conversation is never cut"),
    refused("mcp_servers", "only the caller's own tools are called"),
];

/// POST /v1/messages.
pub const MESSAGES: FieldTable = FieldTable {
    name: "POST /v1/messages",
    sampling: false,
    fields: &[
        taken("max_tokens", "tokens at most"),
        taken("stop_sequences", "up to 16 texts that end the answer"),
        taken("stream", "the answer comes as it grows"),
        taken("temperature", "a sampling parameter"),
        taken("top_p", "a sampling parameter"),
        taken("top_k", "a sampling parameter"),
        harmless("metadata", "machine time is counted for keys"),
        harmless("service_tier", "there is one tier"),
        harmless("inference_geo", "this machine answers"),
        harmless("diagnostics", "nothing is added to the answer"),
        refused("container", "there are no tools that run here"),
    ],
    also: &[CONVERSATION],
};

/// POST /v1/messages/count_tokens.
pub const COUNT: FieldTable = FieldTable {
    name: "POST /v1/messages/count_tokens",
    sampling: false,
    fields: &[],
    also: &[CONVERSATION],
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
    also: &[],
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
    also: &[],
};

/// `output_config.format`.
pub const FORMAT: FieldTable = FieldTable {
    name: "output_config.format",
    sampling: false,
    fields: &[taken("type", "json_schema"), taken("schema", "the answer is JSON of this schema")],
    also: &[],
};

/// `tool_choice`.
pub const CHOICE: FieldTable = FieldTable {
    name: "tool_choice of /v1/messages",
    sampling: false,
    fields: &[
        taken("type", "auto, any, tool or none"),
        taken("name", "the tool that is called"),
        taken("disable_parallel_tool_use", "true: one call at most"),
    ],
    also: &[],
};
