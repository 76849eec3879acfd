//! Tags within tags, each after a mark.

use crate::reasoning;

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static MINIMAX_M3: ChatFormat = ChatFormat {
    name: "minimax-m3",
    models: "MiniMax-M3",
    markers: &[&["]<]minimax[>["]],
    reasoning: reasoning::MINIMAX,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["]<]minimax[>[<tool_call>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("]<]minimax[>[<invoke name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Arguments(ArgumentStyle::Nested("]<]minimax[>[")),
            CallPart::Text("]<]minimax[>[</invoke>"),
            CallPart::Space("\n"),
        ],
        close: "]<]minimax[>[</tool_call>",
    }]),
    ..PLAIN
};
