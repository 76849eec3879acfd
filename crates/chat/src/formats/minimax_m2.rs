//! Tags in a section.

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::invoke_call,
};

pub(super) static MINIMAX_M2: ChatFormat = ChatFormat {
    name: "minimax-m2",
    models: "MiniMax-M2",
    markers: &[&["<minimax:tool_call>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<minimax:tool_call>"],
        items: Items::Several("\n"),
        call: invoke_call!([CallPart::Space("\n")], "", None, [CallPart::Space("\n")]),
        close: "</minimax:tool_call>",
    }]),
    ..PLAIN
};
