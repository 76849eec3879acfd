//! Messages with headers that name channel and recipient.

use crate::reasoning;

use super::shape::{CallSyntax, Channels, ChatFormat, PLAIN};

pub(super) static HARMONY: ChatFormat = ChatFormat {
    name: "harmony",
    models: "gpt-oss",
    markers: &[&["<|channel|>", "<|message|>", "analysis"]],
    reasoning: reasoning::HARMONY,
    opening: "<|start|>assistant",
    calls: CallSyntax::Channels(&Channels {
        start: "<|start|>",
        channel: "<|channel|>",
        message: "<|message|>",
        ends: &["<|end|>", "<|return|>", "<|call|>"],
        tools: "functions.",
        reasoning: "analysis",
        header: ("<|channel|>commentary to=functions.", " <|constrain|>json"),
        call_end: "<|call|>",
    }),
    ..PLAIN
};
