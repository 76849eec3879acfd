//! As qwen3-coder, values on the line of their tags.

use crate::reasoning;

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::{FUNCTION_TAGS, function_call},
};

pub(super) static SEED_OSS: ChatFormat = ChatFormat {
    name: "seed-oss",
    models: "Seed-OSS",
    markers: &[&["<seed:tool_call>"]],
    reasoning: reasoning::SEED,
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: Items::Several("\n"),
        call: function_call!(
            [CallPart::Text("<seed:tool_call>"), CallPart::Space("\n")],
            FUNCTION_TAGS,
            [CallPart::Space("\n"), CallPart::Text("</seed:tool_call>")]
        ),
        close: "",
    }]),
    ..PLAIN
};
