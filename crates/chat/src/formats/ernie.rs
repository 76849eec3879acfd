//! As hermes, the answer between tags.

use crate::reasoning;

use super::shape::{ChatFormat, PLAIN, TAGGED_OBJECTS};

pub(super) static ERNIE: ChatFormat = ChatFormat {
    name: "ernie-4.5",
    models: "ERNIE 4.5",
    markers: &[&["<tool_call>", "<response>"]],
    reasoning: reasoning::THINK_RESPONSE,
    calls: TAGGED_OBJECTS,
    ..PLAIN
};
