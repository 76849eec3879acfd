//! A list of objects with the name as key.

use crate::reasoning;

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, LIST, PLAIN};

pub(super) static APERTUS: ChatFormat = ChatFormat {
    name: "apertus",
    models: "Apertus",
    markers: &[&["<|tools_prefix|>"]],
    reasoning: reasoning::APERTUS,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|tools_prefix|>"],
        items: LIST,
        call: &[CallPart::NameAsKey],
        close: "<|tools_suffix|>",
    }]),
    ..PLAIN
};
