//! A list between tags.

use crate::reasoning;

use super::shape::{
    CallPart, CallSection, CallSyntax, ChatFormat, IdPlace, LIST, NAME_ARGUMENTS, ObjectKeys, PLAIN,
};

pub(super) static APRIEL: ChatFormat = ChatFormat {
    name: "apriel",
    models: "Apriel, Jamba, Hunyuan A13B",
    markers: &[&["<tool_calls>", "\"name\""], &["<tool_calls>"]],
    reasoning: reasoning::APRIEL,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<tool_calls>"],
        items: LIST,
        call: &[CallPart::Object(ObjectKeys {
            id: Some("id"),
            id_place: IdPlace::LastIfAny,
            ..NAME_ARGUMENTS
        })],
        close: "</tool_calls>",
    }]),
    ..PLAIN
};
