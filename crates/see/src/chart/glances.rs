//! The glances: what heads attend to.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
    picture::tinted,
};
use crate::{
    format::number,
    read::{HeadGlance, HeadHabit, TextStrip, glances},
    trace::Trace,
};

/// Tokens of a picture.
const MOST: usize = 256;
const LEFT: f64 = 58.0;
/// Pixels of a drawing of all pictures at most; more heads are told in the table.
const MOST_HEIGHT: f64 = 1400.0;

/// A picture for each head: a row for each token, a column for each token that it sees.
pub(super) fn heads(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let all = glances(trace, strip);
    let count = all.iter().map(|g| g.head + 1).max()?;
    let mut layers: Vec<u32> = all.iter().map(|g| g.layer).collect();
    layers.dedup();
    let size = ((WIDTH - LEFT) / f64::from(count)).clamp(20.0, 112.0);
    let columns = (((WIDTH - LEFT) / size) as u32).min(count);
    let lines = count.div_ceil(columns) as usize;
    let fit = ((MOST_HEIGHT / (size * lines as f64)) as usize).max(1).min(layers.len());
    let height = fit as f64 * lines as f64 * size + 22.0;
    let mut canvas = Canvas::new(
        height,
        "What each head attends to, a square for each head, a row of squares for each layer",
    );
    for g in &all {
        let Some(row) = layers.iter().position(|l| *l == g.layer).filter(|row| *row < fit) else { continue };
        let (line, column) = ((g.head / columns) as usize, g.head % columns);
        let b = Box2::new(
            LEFT + f64::from(column) * size,
            (row * lines + line) as f64 * size + 16.0,
            size - 5.0,
            size - 5.0,
        );
        if row == 0 && line == 0 && size > 40.0 {
            canvas.text(b.x + b.w / 2.0, 11.0, "f", Anchor::Middle, &format!("head {}", g.head));
        }
        if column == 0 && line == 0 {
            canvas.text(0.0, b.y + b.h / 2.0 + 4.0, "f", Anchor::Start, &format!("layer {}", g.layer));
        }
        canvas.rect(b, "cs");
        canvas.image(b, &picture(trace, g), &tip(g));
    }
    let row = |g: &HeadGlance| {
        let [first, before, itself] = g.means.map(|m| format!("{} %", number(100.0 * m)));
        vec![g.layer.to_string(), g.head.to_string(), first, before, itself]
    };
    Some(Figure {
        id: "heads",
        title: "The glances",
        key: format!("{} heads", number(all.len() as f64)),
        finding: told(&all, layers.len() - fit),
        caption: "A square is a head: its rows are the tokens of the text from above, its columns the tokens that they see from the left; the bluer, the more of them is taken. A blue left edge: the first token; a diagonal: the token itself or the one before. Below: what the chosen token looked at, on average over the heads of each layer.",
        command: "lamina trace --attention all",
        svg: canvas.finish(),
        follows: Some("heads"),
        table: (
            vec!["layer", "head", "first token", "token before", "token itself"],
            all.iter().map(row).collect(),
        ),
        ..Figure::default()
    })
}

/// The weights of a head as a picture.
fn picture(trace: &Trace, g: &HeadGlance) -> Vec<u8> {
    let a = &trace.events.attention;
    let side = g.rows.keys().next_back().map_or(0, |last| last + 1).min(MOST);
    let mut pixels = vec![0; side * side];
    for (&place, &i) in g.rows.range(..side) {
        let line = &mut pixels[place * side..][..side];
        line.iter_mut().skip(a.first[i] as usize).zip(&a.weights[i]).for_each(|(pixel, w)| *pixel = *w);
    }
    tinted(side, &pixels)
}

fn tip(g: &HeadGlance) -> String {
    let [first, before, itself] = g.means.map(|m| number(100.0 * m));
    let (layer, head) = (g.layer, g.head);
    format!(
        "layer {layer}, head {head}: {first} % on the first token, {before} % on the one before, {itself} % on itself"
    )
}

fn told(all: &[HeadGlance], left_out: usize) -> String {
    let of = |habit: HeadHabit| all.iter().filter(|g| g.habit() == habit).count();
    let parts = [
        (
            HeadHabit::First,
            "give more than half of their attention to the first token, where a head looks that has nothing to do",
        ),
        (HeadHabit::Before, "give more than half to the token before"),
        (HeadHabit::Itself, "give more than half to the token itself"),
        (HeadHabit::Spread, "spread their attention over the text"),
    ];
    let parts = parts.map(|(habit, words)| (of(habit), words));
    let parts: Vec<_> =
        parts.iter().filter(|part| part.0 > 0).map(|(count, words)| format!("*{count}* {words}")).collect();
    let mut text = format!("Of *{}* heads {}.", number(all.len() as f64), parts.join(", "));
    if left_out > 0 {
        text += &format!(" {left_out} layers more stand in the table alone.");
    }
    text
}
