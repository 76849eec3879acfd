//! Tags in a section of calls.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TAGS, TagStyle,
};

pub(super) static STEP3: ChatFormat = ChatFormat {
    name: "step-3",
    models: "Step 3",
    markers: &[&["steptml:invoke"], &["<｜tool_calls_begin｜>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜tool_calls_begin｜>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("<｜tool_call_begin｜>"),
            CallPart::Text("function"),
            CallPart::Text("<｜tool_sep｜>"),
            CallPart::Text("<steptml:invoke name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<steptml:parameter name=\"",
                close: "</steptml:parameter>",
                ..TAGS
            })),
            CallPart::Text("</steptml:invoke>"),
            CallPart::Text("<｜tool_call_end｜>"),
            CallPart::Space("\n"),
        ],
        close: "<｜tool_calls_end｜>",
    }]),
    ..PLAIN
};
