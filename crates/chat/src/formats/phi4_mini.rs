//! A list between marks.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, LIST, NAME_ARGUMENTS, PLAIN};

pub(super) static PHI4_MINI: ChatFormat = ChatFormat {
    name: "phi-4-mini",
    models: "Phi-4-mini",
    markers: &[&["<|tool|>", "<|/tool|>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tool_call|>"],
        items: LIST,
        call: &[CallPart::Object(NAME_ARGUMENTS)],
        close: "<|/tool_call|>",
    }]),
    ..PLAIN
};
