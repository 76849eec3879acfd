//! The answer forms: what the model would have said behind each layer (logit lens, nostalgebraist 2020).

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{number, time, visible},
    read::{KnownToken, TextStrip, known},
    trace::Trace,
};

/// Tokens that are drawn: the last ones of the text.
const MOST: usize = 160;
const LEFT: f64 = 104.0;

/// A column for each token, a cell for each layer: filled where the token that came stood first already.
pub(super) fn lens(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let all = known(trace, strip);
    let layers = all.first()?.ranks.len();
    let shown = &all[all.len().saturating_sub(MOST)..];
    let (w, h) = (((WIDTH - LEFT) / shown.len() as f64).min(44.0), (260.0 / layers as f64).clamp(7.0, 22.0));
    let bottom = layers as f64 * h;
    let mut canvas = Canvas::new(
        bottom + 24.0,
        "Whether each token stood first behind each layer, a column for each token",
    );
    for layer in 0..layers {
        let y = bottom - (layer + 1) as f64 * h;
        let name =
            if layer == 0 { "embedding".to_owned() } else { format!("after {layer} of {}", layers - 1) };
        // As many names as fit.
        if h >= 13.0 || layer % 4 == 0 || layer + 1 == layers {
            canvas.text(LEFT - 8.0, y + h / 2.0 + 4.0, "f", Anchor::End, &name);
        }
        for (column, token) in shown.iter().enumerate() {
            let word = visible(trace.word(strip.tokens[token.place].id), 24);
            let (class, what) = match token.ranks[layer] {
                Some(0) => ("cb", "the likeliest".to_owned()),
                Some(rank) => ("ce", format!("number {}", rank + 1)),
                None => ("cs", "not among the five likeliest".to_owned()),
            };
            let b = Box2::new(LEFT + column as f64 * w, y + 0.5, w - 1.0, h - 1.0);
            canvas.mark(b, class, &format!("{word}, {name}: {what}"), Some(token.place));
        }
    }
    canvas.text(LEFT, bottom + 17.0, "f", Anchor::Start, "tokens of the text →");
    let row = |token: &KnownToken| {
        let settled = token.settled().map_or("never".to_owned(), |layer| layer.to_string());
        vec![token.place.to_string(), visible(trace.word(strip.tokens[token.place].id), 30), settled]
    };
    Some(Figure {
        id: "lens",
        title: "The answer forms",
        key: key(strip, &all, layers),
        finding: told(trace, strip, &all, layers),
        caption: "Each column is a token, each row what the model has after so many layers, the first at the bottom, read by its own last operators, as if no layer followed. Below: what it would have said around the chosen token, and how likely.",
        command: "lamina trace --lens",
        colours: vec![
            ("cb", "the token that came was the likeliest"),
            ("ce", "it was among the five likeliest"),
            ("cs", "it was not"),
        ],
        svg: canvas.finish(),
        follows: Some("lens"),
        table: (vec!["place", "token", "settled after layers"], all.iter().map(row).collect()),
        ..Figure::default()
    })
}

/// Tokens of the answer; all of them where there is none.
fn answer<'a>(strip: &TextStrip, all: &'a [KnownToken]) -> Vec<&'a KnownToken> {
    let answer: Vec<_> = all.iter().filter(|token| token.place >= strip.prompt_len()).collect();
    if answer.is_empty() { all.iter().collect() } else { answer }
}

/// The layer behind which the middle token of those that were settled was.
fn middle(tokens: &[&KnownToken]) -> Option<usize> {
    let mut settled: Vec<usize> = tokens.iter().filter_map(|token| token.settled()).collect();
    settled.sort_unstable();
    settled.get(settled.len() / 2).copied()
}

fn key(strip: &TextStrip, all: &[KnownToken], layers: usize) -> String {
    middle(&answer(strip, all)).map_or(String::new(), |middle| format!("after {middle} of {}", layers - 1))
}

fn told(trace: &Trace, strip: &TextStrip, all: &[KnownToken], layers: usize) -> String {
    let tokens = answer(strip, all);
    let (last, half) = (layers - 1, layers / 2);
    let knew = tokens.iter().filter(|token| token.settled().is_some_and(|layer| layer <= half)).count();
    let mut text = format!(
        "After {half} of {last} layers the model already had *{knew} of {}* tokens of the answer, and did not change its mind. ",
        number(tokens.len() as f64)
    );
    if let Some(middle) = middle(&tokens) {
        text += &format!("The middle one was settled after *{middle}*. ");
    }
    let never = tokens.iter().filter(|token| token.settled().is_none()).count();
    if never > 0 {
        text += &format!("{} were never its first choice: the samplers chose them. ", number(never as f64));
    }
    if let Some(ns) = trace.run.inside_ns {
        text += &format!("This was looked up in a second pass of {}.", time(ns as f64));
    }
    text.trim_end().to_owned()
}
