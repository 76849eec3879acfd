//! Pairs of tags for key and value.

use super::{
    shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TagStyle},
    tags::TAGS,
};

pub(super) static GLM: ChatFormat = ChatFormat {
    name: "glm-4.5",
    models: "GLM 4.5 to 4.7, Laguna, Spark, Ling 3",
    markers: &[&["<arg_key>"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<tool_call>"),
            CallPart::Name,
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<arg_key>",
                key_end: &["</arg_key>", "<arg_value>"],
                gap: "\n",
                close: "</arg_value>",
                ..TAGS
            })),
            CallPart::Text("</tool_call>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
