//! What takes the place of a picture's marker in a prompt: a text whose soft tokens become the picture's rows.

/// How pictures stand in a prompt.
///
/// A template writes [`PromptRule::marker`] where a picture stands. Each is replaced by [`PromptRule::expand`] *as text*, and
/// the whole is tokenized once: what stands around the rows merges with its neighbours as the model was trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRule {
    /// What a template writes for a picture.
    pub marker: &'static str,
    /// The token whose places the rows take. The sampler never chooses it.
    pub soft: &'static str,
    /// What a marker becomes.
    pub text: PictureText,
}

/// What a marker becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureText {
    /// All rows between two texts. With crops behind the whole, `crops` has `{whole}` and `{crops}` for them, which is
    /// separated by blanks (Gemma 3's pan and scan).
    Rows {
        /// Before the rows.
        before: &'static str,
        /// Behind them.
        after: &'static str,
        /// What is said of crops, where there are any.
        crops: Option<&'static str>,
    },
    /// A text behind each row of cells, and another behind the last (Pixtral).
    Lines {
        /// Behind a row.
        line: &'static str,
        /// Behind the last row.
        last: &'static str,
    },
    /// Tiles, each with texts of its own.
    Tiles {
        /// Before all of it; `{picture}` is its number in the prompt, from 0.
        before: &'static str,
        /// A tile of a grid; `{row}` and `{column}` count from 1.
        tile: TileText,
        /// The picture as one tile, where there are others.
        whole: TileText,
        /// The picture as the only tile.
        only: TileText,
        /// Between tiles of a row.
        between: &'static str,
        /// Behind each row of tiles.
        line: &'static str,
        /// Between rows of tiles.
        lines: &'static str,
        /// Between the tiles and the whole.
        join: &'static str,
        /// Behind all of it.
        after: &'static str,
    },
}

/// What stands around the rows of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileText {
    /// Before them.
    pub before: &'static str,
    /// Behind them.
    pub after: &'static str,
}
