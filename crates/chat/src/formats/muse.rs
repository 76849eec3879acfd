//! Messages to tools, with tags in them.

use crate::reasoning;

use super::{
    shape::{CallPart, CallSection, CallSyntax, ChatFormat, Items, PLAIN},
    tags::invoke_call,
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
        call: invoke_call!(
            [
                CallPart::Word,
                CallPart::Text("<|message|>"),
                CallPart::Text("<atem:function_calls>"),
                CallPart::Space("\n")
            ],
            "atem:",
            None,
            [CallPart::Space("\n"), CallPart::Text("</atem:function_calls>")]
        ),
        close: "",
    }]),
    ..PLAIN
};
