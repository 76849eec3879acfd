//! Tags that say which values are strings.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TAGS, TagStyle,
};

pub(super) static DEEPSEEK_V3_2: ChatFormat = ChatFormat {
    name: "deepseek-v3.2",
    models: "DeepSeek V3.2",
    markers: &[&["DSML", "function_calls"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜DSML｜function_calls>"],
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
        close: "</｜DSML｜function_calls>",
    }]),
    ..PLAIN
};
