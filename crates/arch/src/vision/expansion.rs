//! The text that takes the place of a picture's marker.

use super::{
    layout::PictureLayout,
    prompt::{PictureText, PromptRule, TileText},
};

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
