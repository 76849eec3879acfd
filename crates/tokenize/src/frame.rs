//! What stands around the ids of a text, and the space before its first word.

/// The ids around a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub before: Vec<u32>,
    /// Between two texts that are read together.
    pub between: Vec<u32>,
    pub after: Vec<u32>,
}

/// What happens to the space before the first word of a decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// It is text.
    Keep,
    /// The encoder put it there: the first visible token loses it.
    DropOne,
    /// As [`Lead::DropOne`], for each token until something is visible (the encoder also collapses spaces).
    DropAll,
}
