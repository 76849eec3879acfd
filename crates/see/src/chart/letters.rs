//! Letters to tokens.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, visible},
    read::TextStrip,
    trace::Trace,
};

/// Tokens of a prompt that are drawn.
const MOST: usize = 240;

/// The prompt as boxes, each a token.
pub(super) fn letters(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let ids: Vec<u32> = strip.tokens.iter().filter(|t| t.prompt).map(|t| t.id).collect();
    if ids.is_empty() || trace.words.is_empty() {
        return None;
    }
    let special = |id: &u32| trace.special.contains(id);
    let letters: usize = ids.iter().filter(|id| !special(id)).map(|id| trace.word(*id).chars().count()).sum();
    let (mut x, mut y, mut places) = (0.0, 4.0, vec![]);
    for (place, &id) in ids.iter().enumerate().take(MOST) {
        let text = visible(trace.word(id), 24);
        let w = (text.chars().count() as f64 * 7.6 + 14.0).max(id.to_string().len() as f64 * 6.8 + 8.0);
        if x + w > WIDTH {
            (x, y) = (0.0, y + 52.0);
        }
        places.push((Box2::new(x, y, w, 26.0), place, id, text));
        x += w + 5.0;
    }
    let mut canvas = Canvas::new(y + 48.0, "The prompt, cut into tokens, each with its number");
    for (b, place, id, text) in &places {
        let class = if special(id) { "cs" } else { "cq" };
        let tip = format!("token {place}: number {id}, bytes {}", hex(trace.word(*id)));
        canvas.mark(*b, class, &tip, Some(*place));
        canvas.text(b.x + b.w / 2.0, b.y + 17.5, "k", Anchor::Middle, text);
        canvas.text(b.x + b.w / 2.0, b.y + 40.0, "f", Anchor::Middle, &id.to_string());
    }
    let width = trace.run.model.hidden as f64;
    let numbers = width * ids.len() as f64 * 4.0;
    let cut = if ids.len() > MOST { format!(" The first {MOST} are drawn.") } else { String::new() };
    let rows = ids.iter().enumerate().map(|(i, id)| {
        vec![i.to_string(), visible(trace.word(*id), 40), id.to_string(), hex(trace.word(*id))]
    });
    Some(Figure {
        id: "letters",
        title: "Letters to tokens",
        key: format!("{} tokens", number(ids.len() as f64)),
        finding: format!(
            "{} characters became *{} tokens*. Each is a row of *{}* numbers inside the model: *{}* for the prompt.{cut}",
            number(letters as f64),
            number(ids.len() as f64),
            number(width),
            bytes(numbers)
        ),
        caption: "A box is a token, · a space; below it its number in the vocabulary. Boxes without a line are tokens that stand for no text.",
        command: "lamina tokenize MODEL TEXT",
        svg: canvas.finish(),
        table: (vec!["place", "text", "number", "bytes"], rows.collect()),
        ..Figure::default()
    })
}

/// The bytes of a text, at most twelve.
fn hex(text: &str) -> String {
    let shown: Vec<_> = text.bytes().take(12).map(|b| format!("{b:02x}")).collect();
    shown.join(" ") + if text.len() > 12 { " .." } else { "" }
}
