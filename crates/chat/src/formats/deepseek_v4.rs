//! As deepseek-v3.2 with another name of the section.

use super::{
    shape::{CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::DSML_CALL,
};

pub(super) static DEEPSEEK_V4: ChatFormat = ChatFormat {
    name: "deepseek-v4",
    models: "DeepSeek V4",
    markers: &[&["DSML", "tool_calls>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜DSML｜tool_calls>"],
        items: Items::Several("\n"),
        call: DSML_CALL,
        close: "</｜DSML｜tool_calls>",
    }]),
    ..PLAIN
};
