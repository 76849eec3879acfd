//! A section of calls, the arguments bare.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static DEEPSEEK_V3_1: ChatFormat = ChatFormat {
    name: "deepseek-v3.1",
    models: "DeepSeek V3.1",
    markers: &[&["<｜tool▁calls▁begin｜>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜tool▁calls▁begin｜>"],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<｜tool▁call▁begin｜>"),
            CallPart::Name,
            CallPart::Text("<｜tool▁sep｜>"),
            CallPart::Arguments(ArgumentStyle::Json),
            CallPart::Text("<｜tool▁call▁end｜>"),
        ],
        close: "<｜tool▁calls▁end｜>",
    }]),
    ..PLAIN
};
