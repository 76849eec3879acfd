//! Tags in a section.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TAGS, TagStyle,
};

pub(super) static MINIMAX_M2: ChatFormat = ChatFormat {
    name: "minimax-m2",
    models: "MiniMax-M2",
    markers: &[&["<minimax:tool_call>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<minimax:tool_call>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("<invoke name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle { open: "<parameter name=\"", ..TAGS })),
            CallPart::Text("</invoke>"),
            CallPart::Space("\n"),
        ],
        close: "</minimax:tool_call>",
    }]),
    ..PLAIN
};
