//! As glm in a section, all tags with a suffix.

use crate::reasoning;

use super::{
    shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TagStyle},
    tags::TAGS,
};

pub(super) static HUNYUAN: ChatFormat = ChatFormat {
    name: "hunyuan",
    models: "Hunyuan 3",
    markers: &[&["<tool_sep", ":opensource"], &["tool_sep", "arg_key", "opensource"]],
    reasoning: reasoning::HUNYUAN,
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<tool_calls:opensource>"],
        items: Items::Several("\n"),
        call: &[
            CallPart::Space("\n"),
            CallPart::Text("<tool_call:opensource>"),
            CallPart::Name,
            CallPart::Text("<tool_sep:opensource>"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<arg_key:opensource>",
                key_end: &["</arg_key:opensource>", "<arg_value:opensource>"],
                gap: "\n",
                close: "</arg_value:opensource>",
                ..TAGS
            })),
            CallPart::Text("</tool_call:opensource>"),
            CallPart::Space("\n"),
        ],
        close: "</tool_calls:opensource>",
    }]),
    ..PLAIN
};
