//! Tags with values on lines of their own.

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TagStyle},
    tags::{FUNCTION_TAGS, function_call},
};

pub(super) static QWEN3_CODER: ChatFormat = ChatFormat {
    name: "qwen3-coder",
    models: "Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5",
    markers: &[&["<tool_call>", "<function="]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: function_call!(
            [CallPart::Text("<tool_call>"), CallPart::Space("\n")],
            TagStyle { lines: true, ..FUNCTION_TAGS },
            [CallPart::Space("\n"), CallPart::Text("</tool_call>")]
        ),
        close: "",
    }]),
    ..PLAIN
};
