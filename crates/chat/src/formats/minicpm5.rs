//! Tags, with values in CDATA where they have markup.

use super::{
    shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TagStyle},
    tags::TAGS,
};

pub(super) static MINICPM5: ChatFormat = ChatFormat {
    name: "minicpm5",
    models: "MiniCPM5",
    markers: &[&["<function name=\"", "<param name=\""]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<function name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<param name=\"",
                close: "</param>",
                after: "",
                cdata: true,
                ..TAGS
            })),
            CallPart::Text("</function>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
