//! A list in a block of code; the tool directly-answer means none.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, ObjectKeys, PLAIN};

pub(super) static COMMAND_R_PLUS: ChatFormat = ChatFormat {
    name: "command-r-plus",
    models: "Command-R, Command-R+",
    markers: &[&["Action:", "directly-answer"], &["Action:\\n```json"], &["Action: ```json"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["Action: ```json", "Action:```json", "Action:\n```json"],
        items: Items::List { separator: ",\n", first: "\n", last: "\n" },
        call: &[CallPart::Object(ObjectKeys {
            name: "tool_name",
            arguments: &["parameters"],
            silent: "directly-answer",
            ..NAME_ARGUMENTS
        })],
        close: "```",
    }]),
    ..PLAIN
};
