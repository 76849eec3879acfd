//! An object after a mark or in a message of its own.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, PLAIN};

pub(super) static GIGACHAT3: ChatFormat = ChatFormat {
    name: "gigachat3",
    models: "GigaChat 3",
    markers: &[&["<|function_call|>", "message_sep"], &["function call", "role_sep"]],
    hidden: &["<|message_sep|>"],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[
            "<|function_call|>",
            "<|message_sep|>\n\nfunction call<|role_sep|>\n",
            "function call<|role_sep|>\n",
        ],
        items: Items::One,
        call: &[CallPart::Object(NAME_ARGUMENTS)],
        close: "",
    }]),
    ..PLAIN
};
