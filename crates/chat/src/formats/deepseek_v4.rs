//! As deepseek-v3.2 with another name of the section.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TAGS, TagStyle,
};

pub(super) static DEEPSEEK_V4: ChatFormat = ChatFormat {
    name: "deepseek-v4",
    models: "DeepSeek V4",
    markers: &[&["DSML", "tool_calls>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜DSML｜tool_calls>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("<｜DSML｜invoke name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<｜DSML｜parameter name=\"",
                typed: Some(("\" string=\"", "true")),
                close: "</｜DSML｜parameter>",
                ..TAGS
            })),
            CallPart::Text("</｜DSML｜invoke>"),
        ],
        close: "</｜DSML｜tool_calls>",
    }]),
    ..PLAIN
};
