//! A tag for each call.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static FUNCTIONARY_V3_1: ChatFormat = ChatFormat {
    name: "functionary-v3.1",
    models: "Functionary v3.1, Llama 3 with custom tools",
    markers: &[&["<function=", "</function>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<function="),
            CallPart::Name,
            CallPart::Text(">"),
            CallPart::Arguments(ArgumentStyle::Json),
            CallPart::Text("</function>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
