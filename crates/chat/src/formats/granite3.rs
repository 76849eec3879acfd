//! A list after a mark, nothing closes it.

use crate::reasoning;

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, LIST, NAME_ARGUMENTS, PLAIN};

pub(super) static GRANITE3: ChatFormat = ChatFormat {
    name: "granite-3",
    models: "Granite 3",
    markers: &[&["<|tool_call|>", "JSON list"], &["<tool_call>", "<|start_of_role|>", "JSON list"]],
    reasoning: reasoning::THINK_RESPONSE,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tool_call|>", "<tool_call>"],
        items: LIST,
        call: &[CallPart::Object(NAME_ARGUMENTS)],
        close: "",
    }]),
    ..PLAIN
};
