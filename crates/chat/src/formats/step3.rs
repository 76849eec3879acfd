//! Tags in a section of calls.

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::invoke_call,
};

pub(super) static STEP3: ChatFormat = ChatFormat {
    name: "step-3",
    models: "Step 3",
    markers: &[&["steptml:invoke"], &["<｜tool_calls_begin｜>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<｜tool_calls_begin｜>"],
        items: Items::Several("\n"),
        call: invoke_call!(
            [
                CallPart::Space("\n"),
                CallPart::Text("<｜tool_call_begin｜>"),
                CallPart::Text("function"),
                CallPart::Text("<｜tool_sep｜>")
            ],
            "steptml:",
            None,
            [CallPart::Text("<｜tool_call_end｜>"), CallPart::Space("\n")]
        ),
        close: "<｜tool_calls_end｜>",
    }]),
    ..PLAIN
};
