//! Calls as XML writes them: an element with the tool's name, which holds an element for each argument. Formats differ in
//! the names, and in what stands around. The macros are used where `CallPart` is in scope: only macros join slices.

use super::shape::{ArgumentStyle, CallPart, TagStyle};

/// Tags with the key as an attribute, after the opening that a format gives.
pub(super) const TAGS: TagStyle = TagStyle {
    open: "",
    typed: None,
    key_end: &["\">"],
    gap: "",
    close: "</parameter>",
    lines: false,
    after: "\n",
    cdata: false,
};

/// Tags `<parameter=KEY>` within `<function=NAME>`.
pub(super) const FUNCTION_TAGS: TagStyle = TagStyle { open: "<parameter=", key_end: &[">"], ..TAGS };

/// Arguments in tags.
pub(super) const fn arguments(tags: TagStyle) -> CallPart {
    CallPart::Arguments(ArgumentStyle::Tags(tags))
}

/// The parts of a call: those before its element, its opening tag around the tool's name, arguments, its closing tag, and the
/// parts behind it.
macro_rules! element_call {
    ([$($before:expr),*], $open:expr, $end:expr, $tags:expr, $close:expr, [$($behind:expr),*]) => {
        &[
            $($before,)*
            CallPart::Text($open),
            CallPart::Name,
            CallPart::Text($end),
            CallPart::Space("\n"),
            $crate::formats::tags::arguments($tags),
            CallPart::Text($close),
            $($behind,)*
        ]
    };
}

/// The same with `<function=NAME>`.
macro_rules! function_call {
    ([$($before:expr),*], $tags:expr, [$($behind:expr),*]) => {
        $crate::formats::tags::element_call!(
            [$($before),*], "<function=", ">", $tags, "</function>", [$($behind),*]
        )
    };
}

/// The same with `<PREFIXinvoke name="NAME">` and `<PREFIXparameter name="KEY">`; `typed` as in [`TagStyle`].
macro_rules! invoke_call {
    ([$($before:expr),*], $prefix:literal, $typed:expr, [$($behind:expr),*]) => {
        $crate::formats::tags::element_call!(
            [$($before),*],
            concat!("<", $prefix, "invoke name=\""),
            "\">",
            $crate::formats::shape::TagStyle {
                open: concat!("<", $prefix, "parameter name=\""),
                typed: $typed,
                close: concat!("</", $prefix, "parameter>"),
                ..$crate::formats::tags::TAGS
            },
            concat!("</", $prefix, "invoke>"),
            [$($behind),*]
        )
    };
}

pub(super) use {element_call, function_call, invoke_call};

/// A call in DeepSeek's markup, whose tags say which values are strings.
pub(super) const DSML_CALL: &[CallPart] =
    invoke_call!([CallPart::Space("\n")], "｜DSML｜", Some(("\" string=\"", "true")), []);
