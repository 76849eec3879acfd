//! Tags that say which values are strings.

use super::{
    shape::{CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::DSML_CALL,
};

pub(super) static DEEPSEEK_V3_2: ChatFormat = ChatFormat {
    name: "deepseek-v3.2",
    models: "DeepSeek V3.2",
    markers: &[&["DSML", "function_calls"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜DSML｜function_calls>"],
        items: Items::Several("\n"),
        call: DSML_CALL,
        close: "</｜DSML｜function_calls>",
    }]),
    ..PLAIN
};
