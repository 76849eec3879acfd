//! A list between tags.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, LIST, NAME_ARGUMENTS, PLAIN};

pub(super) static NEMOTRON: ChatFormat = ChatFormat {
    name: "nemotron",
    models: "Nemotron Nano 2",
    markers: &[&["<TOOLCALL>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<TOOLCALL>"],
        items: LIST,
        call: &[CallPart::Object(NAME_ARGUMENTS)],
        close: "</TOOLCALL>",
    }]),
    ..PLAIN
};
