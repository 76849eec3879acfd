//! A list after a word.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, LIST, NAME_ARGUMENTS, PLAIN};

pub(super) static FUNCTOOLS: ChatFormat = ChatFormat {
    name: "functools",
    models: "FireFunction 2, Phi-4-mini under templates of its users",
    markers: &[&["functools["]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["functools"],
        items: LIST,
        call: &[CallPart::Object(NAME_ARGUMENTS)],
        close: "",
    }]),
    ..PLAIN
};
