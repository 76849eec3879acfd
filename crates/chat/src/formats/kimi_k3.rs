//! Tags with their types.

use crate::reasoning;

use super::{
    shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TagStyle},
    tags::TAGS,
};

pub(super) static KIMI_K3: ChatFormat = ChatFormat {
    name: "kimi-k3",
    models: "Kimi K3",
    markers: &[&["<|open|>", "<|sep|>"], &["open_tag(", "<|close|>"]],
    reasoning: reasoning::KIMI,
    hidden: &[
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ],
    calls: CallSyntax::Sections(&[CallSection {
        open: &["<|open|>tools<|sep|>"],
        items: Items::Several(""),
        call: &[
            CallPart::Text("<|open|>call tool=\""),
            CallPart::Name,
            CallPart::Text("\" index=\""),
            CallPart::Word,
            CallPart::Text("\"<|sep|>"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<|open|>argument key=\"",
                typed: Some(("\" type=\"", "string")),
                key_end: &["\"<|sep|>"],
                close: "<|close|>argument<|sep|>",
                after: "",
                ..TAGS
            })),
            CallPart::Text("<|close|>call<|sep|>"),
        ],
        close: "<|close|>tools<|sep|>",
    }]),
    ..PLAIN
};
