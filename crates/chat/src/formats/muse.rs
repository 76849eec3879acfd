//! Messages to tools, with tags in them.

use crate::reasoning;

use super::shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN, TAGS, TagStyle,
};

pub(super) static MUSE: ChatFormat = ChatFormat {
    name: "muse",
    models: "Muse",
    markers: &[&["<atem:invoke"], &["atem:"]],
    reasoning: reasoning::RECIPIENT,
    hidden: &["<|start|>assistant", " to=user<|message|>", "<|message|>", "<|eom|>", "<|eot|>"],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[" to="],
        items: Items::One,
        call: &[
            CallPart::Word,
            CallPart::Text("<|message|>"),
            CallPart::Text("<atem:function_calls>"),
            CallPart::Space("\n"),
            CallPart::Text("<atem:invoke name=\""),
            CallPart::Name,
            CallPart::Text("\">"),
            CallPart::Space("\n"),
            CallPart::Arguments(ArgumentStyle::Tags(TagStyle {
                open: "<atem:parameter name=\"",
                close: "</atem:parameter>",
                ..TAGS
            })),
            CallPart::Text("</atem:invoke>"),
            CallPart::Space("\n"),
            CallPart::Text("</atem:function_calls>"),
        ],
        close: "",
    }]),
    ..PLAIN
};
