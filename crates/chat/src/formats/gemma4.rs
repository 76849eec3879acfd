//! Bare keys, and strings between marks.

use crate::reasoning;

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static GEMMA4: ChatFormat = ChatFormat {
    name: "gemma4",
    models: "Gemma 4",
    markers: &[&["<|tool_call>call:"], &["<|tool_call>", "<|\"|>"]],
    reasoning: reasoning::GEMMA,
    hidden: &["<|tool_response>"],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<|tool_call>"),
            CallPart::Text("call:"),
            CallPart::Name,
            CallPart::Arguments(ArgumentStyle::Bare),
            CallPart::Text("<tool_call|>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
