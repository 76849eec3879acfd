//! A list after a mark.

use crate::reasoning;

use super::shape::{
    CallPart, CallSection, CallSyntax, ChatFormat, IdPlace, IdStyle, LIST, NAME_ARGUMENTS, ObjectKeys, PLAIN,
};

pub(super) static MISTRAL: ChatFormat = ChatFormat {
    name: "mistral",
    models: "Mistral 7B v0.3, Nemo, Large 2",
    markers: &[&["[TOOL_CALLS]"]],
    reasoning: reasoning::BRACKETS,
    ids: IdStyle::Nine,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["[TOOL_CALLS]"],
        items: LIST,
        call: &[CallPart::Object(ObjectKeys { id: Some("id"), id_place: IdPlace::Last, ..NAME_ARGUMENTS })],
        close: "",
    }]),
    ..PLAIN
};
