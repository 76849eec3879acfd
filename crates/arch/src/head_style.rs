//! Where a family's checkpoints have layers that guess further tokens, and how those were trained.

use crate::spec::{HeadFeed, JoinFirst, LastRow};

/// How a family's checkpoints carry layers that guess further tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadStyle {
    /// What stands for [`HeadStyle::LAYERS`] in the names of their tensors; `{h}` counts them from 0.
    pub layers: &'static str,
    /// What the projection of embedding and hidden row reads first.
    pub first: JoinFirst,
    /// Which row of the model they read.
    pub source: LastRow,
    /// Which row goes into the next guess.
    pub feed: HeadFeed,
    /// The row of the first token has no embedding.
    pub blank_first: bool,
}

impl HeadStyle {
    /// Where the layers of a model stand.
    pub const LAYERS: &'static str = "model.layers.{i}.";
    /// Canonical names of what a head has beside its layer begin so.
    pub(crate) const TENSORS: &'static str = "blk.{i}.nextn.";

    /// DeepSeek V3 and GLM-4.5: further layers behind the last one.
    pub const NEXTN: HeadStyle = HeadStyle {
        layers: HeadStyle::LAYERS,
        first: JoinFirst::Embedding,
        source: LastRow::Normed,
        feed: HeadFeed::Residual,
        blank_first: true,
    };

    /// ERNIE 4.5, as it was trained: the residual goes in, and the model's own final norm stands before its output matrix.
    pub const ERNIE: HeadStyle = HeadStyle {
        layers: "model.mtp_block.{h}.",
        source: LastRow::Residual,
        blank_first: false,
        ..HeadStyle::NEXTN
    };
}
