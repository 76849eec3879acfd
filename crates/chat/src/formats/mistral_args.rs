//! Name and arguments apart: tokenizers v11 and later.

use crate::reasoning;

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, IdStyle, Items, PLAIN};

pub(super) static MISTRAL_ARGS: ChatFormat = ChatFormat {
    name: "mistral-args",
    models: "Magistral, Devstral, Mistral Small 3.2, Ministral 3",
    markers: &[&["[TOOL_CALLS]", "[ARGS]"]],
    reasoning: reasoning::BRACKETS,
    ids: IdStyle::Nine,
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several(""),
        call: &[
            CallPart::Text("[TOOL_CALLS]"),
            CallPart::Name,
            CallPart::OptionalId("[CALL_ID]"),
            CallPart::Text("[ARGS]"),
            CallPart::Arguments(ArgumentStyle::Json),
        ],
        close: "",
    }]),
    ..PLAIN
};
