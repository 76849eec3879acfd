//! Grids: a word or a part for each row and column.

use crate::{
    chart::{Anchor, Box2, Canvas, WIDTH},
    format::number,
};

const LEFT: f64 = 170.0;
const ROW: f64 = 20.0;
const TOP: f64 = 26.0;
const CLASSES: [&str; 6] = ["ca", "cb", "cc", "cd", "ce", "cg"];

/// Different words, in the order in which they come first.
fn kinds(words: &[Vec<String>]) -> Vec<&str> {
    let mut found: Vec<&str> = vec![];
    for word in words.iter().flatten().filter(|word| !word.is_empty()) {
        if !found.contains(&word.as_str()) {
            found.push(word);
        }
    }
    found
}

fn frame(title: &str, rows: &[String], columns: &[String]) -> (Canvas, f64) {
    let mut canvas = Canvas::new(TOP + rows.len() as f64 * ROW + 44.0, title);
    let cell = (WIDTH - LEFT) / columns.len().max(1) as f64;
    for (i, name) in rows.iter().enumerate() {
        canvas.text(LEFT - 8.0, TOP + i as f64 * ROW + 14.0, "f", Anchor::End, name);
    }
    // As many names as fit.
    let every = (34.0 / cell).ceil().max(1.0) as usize;
    for (i, name) in columns.iter().enumerate().step_by(every) {
        canvas.text(LEFT + (i as f64 + 0.5) * cell, TOP - 8.0, "f", Anchor::Middle, name);
    }
    (canvas, cell)
}

pub(super) fn words(title: &str, rows: &[String], columns: &[String], words: &[Vec<String>]) -> String {
    let (mut canvas, cell) = frame(title, rows, columns);
    let kinds = kinds(words);
    let class = |word: &str| CLASSES[kinds.iter().position(|k| *k == word).unwrap_or(0) % CLASSES.len()];
    for (y, row) in words.iter().enumerate() {
        for (x, word) in row.iter().enumerate().filter(|(_, word)| !word.is_empty()) {
            let place = Box2::new(LEFT + x as f64 * cell, TOP + y as f64 * ROW, cell - 1.0, ROW - 2.0);
            canvas.mark(place, class(word), &format!("{} {}: {word}", rows[y], columns[x]), None);
        }
    }
    let (mut x, y) = (LEFT, TOP + rows.len() as f64 * ROW + 18.0);
    for kind in &kinds {
        canvas.rect(Box2::new(x, y, 9.0, 9.0), class(kind));
        canvas.text(x + 14.0, y + 8.5, "f", Anchor::Start, kind);
        x += kind.chars().count() as f64 * 7.0 + 36.0;
    }
    canvas.finish()
}

/// Steps of a part, so that a theme's colours are enough: each is drawn with more of its place filled.
pub(super) fn heat(title: &str, rows: &[String], columns: &[String], values: &[Vec<Option<f64>>]) -> String {
    let (mut canvas, cell) = frame(title, rows, columns);
    for (y, row) in values.iter().enumerate() {
        for (x, value) in row.iter().enumerate() {
            let Some(value) = value.map(|v| v.clamp(0.0, 1.0)) else { continue };
            let place = Box2::new(LEFT + x as f64 * cell, TOP + y as f64 * ROW, cell - 1.0, ROW - 2.0);
            canvas.rect(place, "cs");
            let h = place.h * value;
            let filled = Box2::new(place.x, place.y + place.h - h, place.w, h);
            canvas.mark(filled, "ca", &format!("{} {}: {}", rows[y], columns[x], number(value)), None);
        }
    }
    canvas.finish()
}

pub(super) fn table(
    rows: &[String],
    columns: &[String],
    words: &[Vec<String>],
) -> (Vec<String>, Vec<Vec<String>>) {
    let heads = std::iter::once(String::new()).chain(columns.iter().cloned()).collect();
    let row = |(name, row): (&String, &Vec<String>)| std::iter::once(name).chain(row).cloned().collect();
    (heads, rows.iter().zip(words).map(row).collect())
}
