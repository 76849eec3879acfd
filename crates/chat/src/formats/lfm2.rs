//! As pythonic between marks.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, LIST, PLAIN};

pub(super) static LFM2: ChatFormat = ChatFormat {
    name: "lfm2",
    models: "LFM2, LFM2.5",
    markers: &[
        &["<|tool_call_start|>"],
        &["List of tools: [", "keep_past_thinking"],
        &["<|tool_list_start|>"],
    ],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tool_call_start|>"],
        items: LIST,
        call: &[CallPart::Name, CallPart::Text("("), CallPart::Arguments(ArgumentStyle::Keywords)],
        close: "<|tool_call_end|>",
    }]),
    ..PLAIN
};
