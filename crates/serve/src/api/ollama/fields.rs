//! Fields of Ollama's bodies.

use crate::body::{FieldSpec, FieldTable, harmless, refused, taken};

const MODEL: FieldSpec = taken("model", "name of the model or of an adapter");
const OPTIONS: FieldSpec = taken("options", "sampling and limits");
const KEEP_ALIVE: FieldSpec =
    taken("keep_alive", "how long the model stays in memory: seconds, \"5m\", 0 or -1");
const STREAM: FieldSpec = taken("stream", "false: the whole answer at once");
const FORMAT: FieldSpec = taken("format", "json, or a JSON schema that the answer satisfies");
const THINK: FieldSpec = taken("think", "whether the model reasons, or how much");
const LOGPROBS: FieldSpec = taken("logprobs", "true: logprobs of the answer's tokens");
const TOP: FieldSpec = taken("top_logprobs", "from 0 to 20: so many of the most likely tokens beside each");
const TRUNCATE: FieldSpec = taken("truncate", "false: a prompt that is too long is refused");
const SHIFT: FieldSpec = harmless("shift", "--context-shift sets it for all when the server starts");
const DEBUG: FieldSpec = refused("_debug_render_only", "use /apply-template");
const IMAGES: FieldSpec = taken("images", "pictures before the prompt: files in base64");
const PICTURE: &str = "answers are text";

/// POST /api/generate.
pub const GENERATE: FieldTable = FieldTable {
    name: "POST /api/generate",
    sampling: false,
    fields: &[
        MODEL,
        taken("prompt", "what is answered; none: the model is loaded"),
        taken("suffix", "text behind the answer"),
        taken("system", "what the model is told before"),
        taken("raw", "true: the prompt is taken as it is, without the template"),
        OPTIONS,
        KEEP_ALIVE,
        STREAM,
        FORMAT,
        THINK,
        LOGPROBS,
        TOP,
        TRUNCATE,
        IMAGES,
        SHIFT,
        refused("template", "the model's own template is used; another one is given when the server starts"),
        refused(
            "context",
            "send the conversation to /api/chat: computed beginnings are found by their content",
        ),
        refused("width", PICTURE),
        refused("height", PICTURE),
        refused("steps", PICTURE),
        DEBUG,
    ],
    also: &[],
};

/// POST /api/chat.
pub const CHAT: FieldTable = FieldTable {
    name: "POST /api/chat",
    sampling: false,
    fields: &[
        MODEL,
        taken(
            "messages",
            "the conversation, with pictures as images of a message; none: the model is loaded",
        ),
        taken("tools", "functions that the model may call"),
        OPTIONS,
        KEEP_ALIVE,
        STREAM,
        FORMAT,
        THINK,
        LOGPROBS,
        TOP,
        TRUNCATE,
        SHIFT,
        DEBUG,
    ],
    also: &[],
};

/// POST /api/embed.
pub const EMBED: FieldTable = FieldTable {
    name: "POST /api/embed",
    sampling: false,
    fields: &[
        MODEL,
        taken("input", "a text, or a list of texts"),
        taken("dimensions", "so many of the first numbers, made a vector of length one"),
        TRUNCATE,
        OPTIONS,
        KEEP_ALIVE,
    ],
    also: &[],
};

/// POST /api/embeddings.
pub const EMBEDDINGS: FieldTable = FieldTable {
    name: "POST /api/embeddings",
    sampling: false,
    fields: &[MODEL, taken("prompt", "a text"), OPTIONS, KEEP_ALIVE],
    also: &[],
};

/// POST /api/show.
pub const SHOW: FieldTable = FieldTable {
    name: "POST /api/show",
    sampling: false,
    fields: &[MODEL, taken("name", "older clients' word for model"), harmless("verbose", "all is told")],
    also: &[],
};

/// POST /api/pull.
pub const PULL: FieldTable = FieldTable {
    name: "POST /api/pull",
    sampling: false,
    fields: &[
        taken("model", "hf.co/org/repo:TAG or another name that `lamina pull` takes"),
        taken("name", "older clients' word for model"),
        STREAM,
        harmless("insecure", "the address of the hub is the server's: HF_ENDPOINT"),
        refused("username", "who asks the hub is the server's: `lamina login`, or HF_TOKEN"),
        refused("password", "who asks the hub is the server's: `lamina login`, or HF_TOKEN"),
    ],
    also: &[],
};

/// DELETE /api/delete.
pub const DELETE: FieldTable = FieldTable {
    name: "DELETE /api/delete",
    sampling: false,
    fields: &[
        taken("model", "name of a model that was fetched"),
        taken("name", "older clients' word for model"),
    ],
    also: &[],
};

/// `options` of a request.
pub const REQUEST_OPTIONS: FieldTable = FieldTable {
    name: "options",
    sampling: true,
    fields: &[
        taken("num_predict", "tokens at most; -1 and -2: to the end of the context"),
        taken("num_ctx", "up to the context that the model is loaded with"),
        taken("tfs_z", "1: off, which is all that there is"),
        harmless("f16_kv", "set when the model is loaded"),
        harmless("logits_all", "set by the request"),
        harmless("vocab_only", "models are loaded whole"),
        harmless("embedding_only", "models do both"),
    ],
    also: &[],
};
