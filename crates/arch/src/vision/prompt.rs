//! What takes the place of a picture's marker in a prompt: a text whose soft tokens become the picture's rows.

use super::layout::PictureLayout;

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

impl PromptRule {
    /// The text of the picture number `picture` of a prompt, counted from 0.
    pub fn expand(&self, picture: usize, layout: &PictureLayout) -> String {
        let soft = |n: usize| self.soft.repeat(n);
        match &self.text {
            PictureText::Rows { before, after, crops } => {
                let around = |n: usize| format!("{before}{}{after}", soft(n));
                match crops.filter(|_| layout.cells.len() > 1) {
                    None => around(layout.rows()),
                    Some(said) => {
                        let views: Vec<String> =
                            layout.cells.iter().map(|grid| around(grid.cells())).collect();
                        said.replace("{whole}", &views[0]).replace("{crops}", &views[1..].join(" "))
                    }
                }
            }
            PictureText::Lines { line, last } => {
                let grid = layout.cells[0];
                let lines = vec![soft(grid.columns); grid.rows];
                lines.join(line) + last
            }
            PictureText::Tiles { .. } => self.tiles(picture, layout),
        }
    }

    fn tiles(&self, picture: usize, layout: &PictureLayout) -> String {
        let PictureText::Tiles { before, tile, whole, only, between, line, lines, join, after } = &self.text
        else {
            return String::new();
        };
        let around = |text: &TileText, i: usize| {
            format!("{}{}{}", text.before, self.soft.repeat(layout.cells[i].cells()), text.after)
        };
        let several = layout.cells.len() > 1;
        let views = layout.views().map(|(first, grid)| {
            if grid.tiles() == 1 {
                return around(if several { whole } else { only }, first);
            }
            let (rows, columns) = (grid.rows as usize, grid.columns as usize);
            let one = |row: usize, column: usize| {
                let text = around(tile, first + row * columns + column);
                text.replace("{row}", &(row + 1).to_string()).replace("{column}", &(column + 1).to_string())
            };
            let row =
                |row: usize| (0..columns).map(|column| one(row, column)).collect::<Vec<_>>().join(between);
            (0..rows).map(|i| row(i) + line).collect::<Vec<_>>().join(lines)
        });
        let all = views.collect::<Vec<_>>().join(join);
        format!("{}{all}{after}", before.replace("{picture}", &picture.to_string()))
    }
}
