//! A list between marks, its objects begin with an id.

use crate::reasoning;

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, ObjectKeys, PLAIN};

pub(super) static COMMAND_R7B: ChatFormat = ChatFormat {
    name: "command-r7b",
    models: "Command-R7B, Command A",
    markers: &[&["<|START_ACTION|>"]],
    reasoning: reasoning::COHERE,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|START_ACTION|>"],
        items: Items::List { separator: ",\n    ", first: "\n    ", last: "\n" },
        call: &[CallPart::Object(ObjectKeys {
            name: "tool_name",
            arguments: &["parameters"],
            id: Some("tool_call_id"),
            ..NAME_ARGUMENTS
        })],
        close: "<|END_ACTION|>",
    }]),
    ..PLAIN
};
