//! Why a text is refused.

use std::borrow::Cow;

/// Why a text is no value of an option, as the end of a sentence: `must be auto or never`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub Cow<'static, str>);

impl BadValue {
    /// A value that must be something else.
    pub fn must_be(what: &str) -> BadValue {
        BadValue(format!("must be {what}").into())
    }
}
