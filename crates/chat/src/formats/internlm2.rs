//! An object between marks.

use super::shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, ObjectKeys, PLAIN};

pub(super) static INTERNLM2: ChatFormat = ChatFormat {
    name: "internlm2",
    models: "InternLM 2, 2.5 and 3",
    markers: &[&["<|action_start|>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"],
        items: Items::Several(""),
        call: &[
            CallPart::Space("\n"),
            CallPart::Object(ObjectKeys { arguments: &["parameters", "arguments"], ..NAME_ARGUMENTS }),
        ],
        close: "<|action_end|>",
    }]),
    ..PLAIN
};
