//! Tags with values on lines of their own.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, FUNCTION_TAGS, Items, PLAIN, TagStyle,
};

pub(super) static QWEN3_CODER: ChatFormat = ChatFormat {
    name: "qwen3-coder",
    models: "Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5",
    markers: &[&["<tool_call>", "<function="]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<tool_call>"),
            CallPart::Space("\n"),
            CallPart::Text("<function="),
            CallPart::Name,
            CallPart::Text(">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle { lines: true, ..FUNCTION_TAGS })),
            CallPart::Text("</function>"),
            CallPart::Space("\n"),
            CallPart::Text("</tool_call>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
