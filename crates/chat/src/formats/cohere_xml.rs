//! Tags between the marks of command-r7b.

use crate::reasoning;

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, FUNCTION_TAGS, Items, PLAIN,
};

pub(super) static COHERE_XML: ChatFormat = ChatFormat {
    name: "cohere-xml",
    models: "Command A+ with tags",
    markers: &[&["<|START_ACTION|>", "<parameter="]],
    reasoning: reasoning::COHERE_TEXT,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|START_ACTION|>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("<function="),
            CallPart::Name,
            CallPart::Text(">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(FUNCTION_TAGS)),
            CallPart::Text("</function>"),
            CallPart::Space("\n"),
        ],
        close: "<|END_ACTION|>",
    }]),
    ..PLAIN
};
