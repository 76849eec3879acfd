//! An object between tags.

use super::shape::{ChatFormat, PLAIN, TAGGED_OBJECTS};

pub(super) static HERMES: ChatFormat = ChatFormat {
    name: "hermes",
    models: "Hermes 2 and 3, Qwen 2.5, Qwen 3, QwQ, Granite 4, MiMo, Reka, Bielik",
    markers: &[&["<tool_call>", "\"name\""], &["<tool_call>", "\\\"name\\\""]],
    calls: TAGGED_OBJECTS,
    ..PLAIN
};
