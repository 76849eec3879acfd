//! An object between tags.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, PLAIN};

pub(super) static HERMES: ChatFormat = ChatFormat {
    name: "hermes",
    models: "Hermes 2 and 3, Qwen 2.5, Qwen 3, QwQ, Granite 4, MiMo, Reka, Bielik",
    markers: &[&["<tool_call>", "\"name\""], &["<tool_call>", "\\\"name\\\""]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<tool_call>"),
            CallPart::Space("\n"),
            CallPart::Object(NAME_ARGUMENTS),
            CallPart::Space("\n"),
            CallPart::Text("</tool_call>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
