//! A draft head: one more decoder layer, which goes on from a model's hidden rows and guesses the token after the next.

use super::{Layer, ModelSpec, Norm};

/// One decoder layer over the embedding of a token and the model's hidden row of the token before it.
///
/// Such layers stand in checkpoints (multi-token prediction: DeepSeek V3, GLM-4.5, MiMo, Qwen3-Next, ERNIE) or in a folder of
/// their own (EAGLE). In names its layer is counted on from those of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadSpec {
    /// Attention and feed-forward part.
    pub layer: Layer,
    /// How the embedding and the hidden row become its input.
    pub join: HeadJoin,
    /// Norm before the output matrix: the head's own, or the model's where it has none (ERNIE).
    pub final_norm: Option<Norm>,
    /// Which hidden rows of the model it reads.
    pub source: HeadSource,
    /// Which of its own rows stands for the model's hidden row in the next guess.
    pub feed: HeadFeed,
    /// The row of a sequence's first token was trained without an embedding.
    pub blank_first: bool,
    /// Rows of the output matrix.
    pub vocab: usize,
}

/// How the embedding and the hidden row become a head's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadJoin {
    /// `x = project([norm(embedding), norm(hidden)])`, then a whole layer (multi-token prediction).
    Normed(JoinFirst),
    /// `x = project([embedding, hidden])`, then a layer whose attention reads `x` as it is (EAGLE-1 and 2).
    Plain,
    /// Attention reads `[norm(embedding), norm(hidden)]`, and the hidden row is the residual (EAGLE-3).
    Beside {
        /// The normed hidden row is the residual.
        normed: bool,
    },
}

/// What a projection reads first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinFirst {
    /// The embedding.
    Embedding,
    /// The hidden row (MiMo).
    Hidden,
}

/// Which hidden rows of the model a head reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// Those behind the last layer.
    Last(LastRow),
    /// The residuals before these layers, projected to the head's width (EAGLE-3).
    Residuals(Vec<usize>),
}

/// Which row behind a model's last layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRow {
    /// Behind the final norm.
    Normed,
    /// Before it (ERNIE).
    Residual,
}

/// Which of a head's own rows stands for the model's hidden row in the next guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFeed {
    /// The residual behind its layer.
    Residual,
    /// The row behind its final norm.
    Normed,
}

impl ModelSpec {
    /// Layer `i`; those of heads are counted on from the model's own.
    pub fn layer(&self, i: usize) -> Option<&Layer> {
        let own = self.layers.len();
        self.layers.get(i).or_else(|| self.heads.get(i.checked_sub(own)?).map(|h| &h.layer))
    }

    /// All layers, those of heads behind the model's own.
    pub fn all_layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().chain(self.heads.iter().map(|h| &h.layer))
    }
}
