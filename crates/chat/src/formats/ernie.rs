//! As hermes, the answer between tags.

use crate::reasoning;

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, PLAIN};

pub(super) static ERNIE: ChatFormat = ChatFormat {
    name: "ernie-4.5",
    models: "ERNIE 4.5",
    markers: &[&["<tool_call>", "<response>"]],
    reasoning: reasoning::THINK_RESPONSE,
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
