//! What a model that sees is, as data: pixels, encoder, projector, prompt.

use super::prompt::PromptRule;
use crate::spec::{Act, Layer, Norm};
use lamina_image::{Filter, Fit, Normalization, Patches};
use std::collections::BTreeMap;

/// All that turns a picture into rows of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionSpec {
    /// From a picture to what the encoder takes.
    pub pixels: Pixels,
    /// From patches to rows.
    pub encoder: VisionEncoder,
    /// From the encoder's rows to those of the language model.
    pub projector: Projector,
    /// How the rows of tiles become those of the picture.
    pub arrangement: Arrangement,
    /// What stands in the prompt.
    pub prompt: PromptRule,
    /// Positions of the rows in the language model.
    pub positions: RowPositions,
    /// Rows of a picture see one another both ways in the language model.
    pub sight: PictureSight,
}

/// From a picture to numbers: integers up to the normalization.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// How it is resized, padded and cut into tiles.
    pub fit: Fit,
    /// How it is resampled.
    pub filter: Filter,
    /// Samples as numbers.
    pub scaling: PixelScaling,
    /// How a tile becomes rows of patches.
    pub patches: Patches,
}

/// Samples of 0 to 255 as numbers: `(sample * rescale - mean) / deviation`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelScaling {
    /// Factor on a sample.
    pub rescale: f64,
    /// Of each channel.
    pub mean: [f32; 3],
    /// Of each channel.
    pub deviation: [f32; 3],
    /// Each step is rounded to bfloat16 (Llama 4).
    pub bfloat16: bool,
}

impl PixelScaling {
    /// The number of each sample.
    pub fn table(&self) -> Normalization {
        let by = (self.mean, self.deviation);
        if self.bfloat16 {
            Normalization::in_bfloat16(self.rescale, by)
        } else {
            Normalization::new(self.rescale, by)
        }
    }
}

/// A vision transformer: patches, places, blocks. Its rows of a tile see one another.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionEncoder {
    /// Width of a row.
    pub hidden: usize,
    /// Norm right behind the patch embedding, before places are added (GLM-V).
    pub patch_norm: Option<Norm>,
    /// A row beside those of the patches.
    pub class: Option<ClassRow>,
    /// Learned places, added behind the patch embedding.
    pub places: PatchPlaces,
    /// Where rotary positions of rows and columns begin: 0, or 1 where the class row has 0.
    pub first_place: u32,
    /// Norm before the first block.
    pub pre_norm: Option<Norm>,
    /// Blocks that are run; positions of their rotary embeddings are `[patch, row, column]`.
    pub layers: Vec<Layer>,
    /// Order of the rotary pairs of a head as stored; blocks are run with halves.
    pub pairs: RotaryPairs,
    /// Blocks that see a part of the tile only.
    pub windows: Option<Windows>,
    /// Blocks between which neighbours are merged.
    pub merger: Option<LayerMerger>,
    /// Norm behind the last block.
    pub post_norm: Option<Norm>,
    /// Blocks behind which rows are taken for [`Projector::deep`].
    pub deep: Vec<usize>,
    /// Bounds of matrices, by their canonical names without an ending (Gemma 4's small models).
    pub clips: BTreeMap<String, ClipBounds>,
}

/// What the inputs and outputs of a matrix are cut to: lower and upper bound of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipBounds {
    /// Of its inputs.
    pub input: [f32; 2],
    /// Of its outputs.
    pub output: [f32; 2],
}

impl ClipBounds {
    /// Endings of the tensors that hold them, a number each.
    pub const ENDINGS: [&'static str; 4] = [".input_min", ".input_max", ".output_min", ".output_max"];

    /// Each by the ending of its tensor.
    pub(super) fn named(self) -> [(&'static str, f32); 4] {
        let ([a, b], [c, d]) = (self.input, self.output);
        let mut numbers = [a, b, c, d].into_iter();
        ClipBounds::ENDINGS.map(|ending| (ending, numbers.next().unwrap_or_default()))
    }
}

/// Order of the rotary pairs of a head in a file; settled at load by reordering rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryPairs {
    /// `(i, i + dim / 2)`.
    Half,
    /// `(2 i, 2 i + 1)`.
    Adjacent,
    /// Halves of each half: `(i, i + dim / 4)` in both halves of the head (Gemma 4).
    HalfOfEach,
}

/// Where the row stands that is no patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassRow {
    /// Before the patches; the projector does not get it.
    First,
    /// Before the patches; the projector gets it (`vision_feature_select_strategy` is `full`).
    FirstKept,
    /// Behind the patches; the projector does not get it.
    Last,
}

/// Learned places of patches: rows of `v.position_embd.weight` that are added to those of the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchPlaces {
    /// None: rotary positions alone.
    None,
    /// A row for each patch of a tile, one more for the class row where it stands.
    Each,
    /// A square table; a patch takes the row that its fraction of the side falls on (Idefics 3, MiniCPM-V).
    Fraction {
        /// Rows and columns of the table.
        side: usize,
    },
    /// A square table, interpolated linearly with its corners on the picture's (Qwen3-VL).
    Bilinear {
        /// Rows and columns of the table.
        side: usize,
    },
    /// A square table, interpolated cubically, its cells spread over the picture (GLM-V).
    Bicubic {
        /// Rows and columns of the table.
        side: usize,
    },
    /// A table of columns and one of rows, one behind the other (Gemma 4).
    Axes {
        /// Rows of each.
        rows: usize,
    },
}

/// Windows of patches in which most blocks attend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Patches on a side; those at the edges are smaller.
    pub side: usize,
    /// Blocks that see the whole tile.
    pub full: Vec<usize>,
}

/// Squares of neighbours that attend to one another, and then become one row, inside the encoder (MiniCPM-V 4.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerMerger {
    /// Blocks before it.
    pub after: usize,
    /// Neighbours on a side; their patches stand behind one another.
    pub side: usize,
    /// Norms before attention and before the merge.
    pub norm: Norm,
    /// Width between its matrices.
    pub inner: usize,
    /// Nonlinearity between them.
    pub act: Act,
}

/// From the encoder's rows to those of the language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Projector {
    /// What is done, in order.
    pub steps: Vec<ProjectorStep>,
    /// Steps on rows taken inside the encoder, for each of [`VisionEncoder::deep`]; what they give is added behind the language
    /// model's first layers.
    pub deep: Vec<Vec<ProjectorStep>>,
    /// Width of the language model's rows.
    pub out: usize,
}

/// A step of a projector.
#[derive(Clone, Debug, PartialEq)]
pub enum ProjectorStep {
    /// A square of neighbours becomes their mean.
    Pool {
        /// Neighbours on a side.
        side: usize,
    },
    /// A square of neighbours becomes one row.
    Merge {
        /// Neighbours on a side.
        side: usize,
        /// How their numbers stand in it.
        order: MergeOrder,
    },
    /// A norm under a canonical name; no weight where the name is empty. `{i}` in names is the block that a deep row is from.
    Norm(&'static str, Norm),
    /// `x w^T + b` under a canonical name, with so many outputs.
    Linear(&'static str, usize),
    /// A nonlinearity.
    Act(Act),
    /// `act(gate x) * up x`, so wide.
    Gated {
        /// Canonical names of both.
        names: [&'static str; 2],
        /// Outputs of each.
        inner: usize,
        /// Nonlinearity.
        act: Act,
    },
    /// All numbers times one.
    Scale(f32),
    /// Each number less one, times another: vectors of these canonical names.
    Standardize([&'static str; 2]),
}

/// How the numbers of merged neighbours stand in their row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOrder {
    /// Neighbour by neighbour, row by row.
    Neighbours,
    /// Channel by channel, as a convolution's weights are stored.
    Channels,
}

/// How the rows of tiles become those of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One tile behind the other.
    InOrder,
    /// The whole first; then tiles as one grid without its padding, with `v.image_newline` behind each row (LLaVA-NeXT).
    Joined,
}

/// Positions of a picture's rows in the language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPositions {
    /// Like those of tokens.
    Counted,
    /// `[p, p + row, p + column]`; what follows begins at `p` plus the longer side (mrope).
    Grid,
}

/// What rows of a picture see of one another in the language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureSight {
    /// Those before.
    Causal,
    /// All, in layers whose mask lets them: every one (Gemma 3), or those with a sliding window (Gemma 4).
    Both,
}
