//! Id, name and arguments apart.

use crate::reasoning;

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static SOLAR: ChatFormat = ChatFormat {
    name: "solar",
    models: "Solar Open",
    markers: &[&["<|tool_call:begin|>"]],
    reasoning: reasoning::SOLAR,
    hidden: &["<|begin|>assistant", "<|content|>", "<|end|>"],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tool_calls|>"],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<|tool_call:begin|>"),
            CallPart::Id,
            CallPart::Text("<|tool_call:name|>"),
            CallPart::Name,
            CallPart::Text("<|tool_call:args|>"),
            CallPart::Arguments(ArgumentStyle::Json),
            CallPart::Text("<|tool_call:end|>"),
        ],
        close: "<|calls|>",
    }]),
    ..PLAIN
};
