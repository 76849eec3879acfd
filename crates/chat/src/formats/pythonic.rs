//! The answer is a list of calls as Python writes them.

use super::shape::{ArgumentStyle, CallPart, CallSection, CallSyntax, ChatFormat, LIST, PLAIN};

pub(super) static PYTHONIC: ChatFormat = ChatFormat {
    name: "pythonic",
    models: "Llama 4, OLMo 3",
    markers: &[&["[func_name1("], &["[func_name("], &["python list"], &["pythonic"]],
    calls: CallSyntax::Sections(&[CallSection {
        open: &[],
        items: LIST,
        call: &[CallPart::Name, CallPart::Text("("), CallPart::Arguments(ArgumentStyle::Keywords)],
        close: "",
    }]),
    ..PLAIN
};
