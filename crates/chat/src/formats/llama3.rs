//! The answer is an object; built-in tools are called in the way of Python.

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, NAME_ARGUMENTS, ObjectKeys, PLAIN,
};

pub(super) static LLAMA3: ChatFormat = ChatFormat {
    name: "llama3",
    models: "Llama 3.1 to 3.3",
    markers: &[
        &["<|python_tag|>"],
        &["\"parameters\": ", "<|eom_id|>"],
        &["{\"name\": function name, \"parameters\""],
    ],
    calls: CallSyntax::Sections(&[
        CallSection {
            open: &[],
            items: Items::Several("; "),
            call: &[CallPart::Object(ObjectKeys {
                arguments: &["parameters", "arguments"],
                ..NAME_ARGUMENTS
            })],
            close: "",
        },
        CallSection {
            open: &["<|python_tag|>"],
            items: Items::Several("; "),
            call: &[CallPart::Object(ObjectKeys {
                arguments: &["parameters", "arguments"],
                ..NAME_ARGUMENTS
            })],
            close: "",
        },
        CallSection {
            open: &["<|python_tag|>"],
            items: Items::One,
            call: &[CallPart::Name, CallPart::Text(".call("), CallPart::Arguments(ArgumentStyle::Keywords)],
            close: "",
        },
    ]),
    ..PLAIN
};
