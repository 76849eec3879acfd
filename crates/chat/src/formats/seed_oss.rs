//! As qwen3-coder, values on the line of their tags.

use crate::reasoning;

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, FUNCTION_TAGS, Items, PLAIN,
};

pub(super) static SEED_OSS: ChatFormat = ChatFormat {
    name: "seed-oss",
    models: "Seed-OSS",
    markers: &[&["<seed:tool_call>"]],
    reasoning: reasoning::SEED,
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: &[
            CallPart::Text("<seed:tool_call>"),
            CallPart::Space("\n"),
            CallPart::Text("<function="),
            CallPart::Name,
            CallPart::Text(">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(FUNCTION_TAGS)),
            CallPart::Text("</function>"),
            CallPart::Space("\n"),
            CallPart::Text("</seed:tool_call>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
