//! Names with the number of the call.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, IdStyle, Items, PLAIN};

pub(super) static KIMI_K2: ChatFormat = ChatFormat {
    name: "kimi-k2",
    models: "Kimi K2",
    markers: &[&["<|tool_call_argument_begin|>"]],
    ids: IdStyle::Numbered,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tool_calls_section_begin|>"],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<|tool_call_begin|>"),
            CallPart::NumberedName("functions."),
            CallPart::Text("<|tool_call_argument_begin|>"),
            CallPart::Arguments(ArgumentStyle::Json),
            CallPart::Text("<|tool_call_end|>"),
        ],
        close: "<|tool_calls_section_end|>",
    }]),
    ..PLAIN
};
