//! What a grammar let through.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{number, time, visible},
    read::{Doubt, TextStrip, doubts},
    trace::Trace,
};

/// A bar for each token, as high as the share of the vocabulary that was allowed; none without a grammar.
pub(super) fn form(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let vocab = trace.run.model.vocab as f64;
    let all: Vec<Doubt> = doubts(trace, strip);
    if vocab < 2.0 || all.iter().all(|d| !d.forced && f64::from(d.allowed) >= vocab) {
        return None;
    }
    let height = |allowed: u32| f64::from(allowed.max(1)).log2() / vocab.log2() * 92.0 + 3.0;
    let w = (WIDTH / all.len() as f64).min(44.0);
    let mut canvas =
        Canvas::new(148.0, "How many tokens the grammar allowed at each place, on a logarithmic scale");
    canvas.path(&format!("M0 15H{WIDTH}"), "l");
    canvas.text(WIDTH, 11.0, "f", Anchor::End, &format!("whole vocabulary: {}", number(vocab)));
    for (i, d) in all.iter().enumerate() {
        let word = strip.tokens.get(d.place).map_or(String::new(), |t| visible(trace.word(t.id), 24));
        let (x, h) = (i as f64 * w, height(d.allowed));
        let only = d.forced || d.allowed == 1;
        let tip = format!("{word}: {} allowed", number(f64::from(d.allowed)));
        canvas.mark(Box2::new(x, 110.0 - h, w - 2.0, h), if only { "cb" } else { "cc" }, &tip, Some(d.place));
        if w > 20.0 {
            canvas.text(x + w / 2.0, 128.0, "f", Anchor::Middle, &visible(&word, (w / 7.0) as usize));
        }
    }
    let forced = all.iter().filter(|d| d.forced || d.allowed == 1).count();
    let masks: u64 = strip.tokens.iter().filter_map(|t| t.event).map(|i| trace.events.token.mask[i]).sum();
    let row = |d: &Doubt| {
        let word = strip.tokens.get(d.place).map_or(String::new(), |t| visible(trace.word(t.id), 24));
        vec![d.place.to_string(), word, d.allowed.to_string(), if d.forced { "yes" } else { "" }.to_owned()]
    };
    Some(Figure {
        id: "form",
        title: "The form",
        key: format!("{forced} without a choice"),
        finding: format!(
            "Of {} tokens *{forced}* left no choice at all; at the first the grammar let *{}* of {} through. All masks together took *{}*.",
            all.len(),
            number(f64::from(all.first()?.allowed)),
            number(vocab),
            time(masks as f64)
        ),
        caption: "Height: tokens that were allowed, on a logarithmic scale; orange where there was only one.",
        command: "lamina run --json-schema FILE",
        colours: vec![("cc", "allowed"), ("cb", "only one")],
        svg: canvas.finish(),
        table: (vec!["place", "token", "allowed", "forced"], all.iter().map(row).collect()),
        ..Figure::default()
    })
}
