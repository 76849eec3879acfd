//! Tags between the marks of command-r7b.

use crate::reasoning;

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::{FUNCTION_TAGS, function_call},
};

pub(super) static COHERE_XML: ChatFormat = ChatFormat {
    name: "cohere-xml",
    models: "Command A+ with tags",
    markers: &[&["<|START_ACTION|>", "<parameter="]],
    reasoning: reasoning::COHERE_TEXT,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|START_ACTION|>"],
        items: Items::Several("\n"),
        call: function_call!([CallPart::Space("\n")], FUNCTION_TAGS, [CallPart::Space("\n")]),
        close: "<|END_ACTION|>",
    }]),
    ..PLAIN
};
