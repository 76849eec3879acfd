//! Columns of a report.

use crate::output::{bold, printable};
use comfy_table::{CellAlignment, Table, presets};

/// Lines with `heads` above and `rows` below, numbers (the columns of `right`) to the right.
pub fn table(heads: &[&str], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(if right.contains(&i) {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
    }
    let text = table.to_string();
    let lines = text.lines().map(str::trim_end).enumerate();
    lines.map(|(i, line)| if i == 0 { bold(line) + "\n" } else { format!("{line}\n") }).collect()
}

/// Lines of a name and a value each.
pub fn pairs<N: AsRef<str>>(rows: impl IntoIterator<Item = (N, String)>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let chars = |name: &N| name.as_ref().chars().count();
    let width = rows.iter().map(|(name, _)| chars(name)).max().unwrap_or(0);
    let line = |(name, value): &(N, String)| {
        let pad = " ".repeat(width - chars(name));
        format!("{}{pad}  {}\n", bold(&printable(name.as_ref())), printable(value))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_width() {
        let rows = [["你好", "1"], ["abc", "100"]].map(|r| r.map(String::from).to_vec());
        assert_eq!(table(&["name", "n"], &[1], rows), "name    n\n你好    1\nabc   100\n");
        assert_eq!(pairs([("a", "1".into()), ("long", "2\n".into())]), "a     1\nlong  2\\n\n");
    }
}
