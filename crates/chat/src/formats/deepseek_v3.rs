//! A section of calls, the arguments in a block of code.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static DEEPSEEK_V3: ChatFormat = ChatFormat {
    name: "deepseek-v3",
    models: "DeepSeek V3, R1 and its distillations",
    markers: &[&["<｜tool▁calls▁begin｜>", "```json"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜tool▁calls▁begin｜>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<｜tool▁call▁begin｜>"),
            CallPart::Text("function"),
            CallPart::Text("<｜tool▁sep｜>"),
            CallPart::Name,
            CallPart::Space("\n"),
            CallPart::Text("```json"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Json),
            CallPart::Space("\n"),
            CallPart::Text("```"),
            CallPart::Text("<｜tool▁call▁end｜>"),
        ],
        close: "<｜tool▁calls▁end｜>",
    }]),
    ..PLAIN
};
