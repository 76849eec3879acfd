//! Parts with the recipient on a line before them.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN};

pub(super) static FUNCTIONARY_V3_2: ChatFormat = ChatFormat {
    name: "functionary-v3.2",
    models: "Functionary v3.2",
    markers: &[&[">>>all"], &[">>>", "tool_call"]],
    hidden: &[">>>all\n"],
    opening: ">>>",
    calls: CallSyntax::Sections(&[CallSection {
        open: &[">>>"],
        items: Items::One,
        call: &[CallPart::Name, CallPart::Space("\n"), CallPart::Arguments(ArgumentStyle::Json)],
        close: "",
    }]),
    ..PLAIN
};
