//! The choice of each token: how unsure the model was, and what samplers made of it.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{number, visible},
    read::{Doubt, TextStrip, doubts},
    trace::Trace,
};

/// A bar for each token, as high as the doubt about it.
pub(super) fn choice(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let all: Vec<Doubt> = doubts(trace, strip);
    let free: Vec<Doubt> = all.iter().copied().filter(|d| !d.forced).collect();
    if free.is_empty() {
        return None;
    }
    let most = free.iter().map(|d| d.model).fold(0.1f32, f32::max);
    let w = (WIDTH / all.len() as f64).min(60.0);
    let mut canvas = Canvas::new(96.0, "Doubt about each token, before and behind the samplers, in bits");
    for (i, d) in all.iter().enumerate() {
        let h = |bits: f32| f64::from(bits / most) * 72.0;
        let word = strip.tokens.get(d.place).map_or(String::new(), |t| visible(trace.word(t.id), 30));
        let tip = format!(
            "{word}: {} bits, {} behind the samplers; {} % by the model",
            number(f64::from(d.model)),
            number(f64::from(d.drawn)),
            number(100.0 * f64::from(d.probability))
        );
        let x = i as f64 * w;
        canvas.mark(Box2::new(x, 78.0 - h(d.model), w - 1.5, h(d.model)), "cg", &tip, Some(d.place));
        canvas.mark(Box2::new(x, 78.0 - h(d.drawn), w - 1.5, h(d.drawn)), "cb", &tip, Some(d.place));
    }
    canvas.path(&format!("M0 78H{WIDTH}"), "l");
    canvas.text(0.0, 93.0, "f", Anchor::Start, "tokens of the answer →");
    canvas.text(WIDTH, 93.0, "f", Anchor::End, &format!("highest: {} bits", number(f64::from(most))));
    let mean =
        |what: fn(&Doubt) -> f32| free.iter().map(|d| f64::from(what(d))).sum::<f64>() / free.len() as f64;
    let (model, drawn) = (mean(|d| d.model), mean(|d| d.drawn));
    let row = |d: &Doubt| {
        let word = strip.tokens.get(d.place).map_or(String::new(), |t| visible(trace.word(t.id), 30));
        vec![
            d.place.to_string(),
            word,
            number(f64::from(d.model)),
            number(f64::from(d.drawn)),
            format!("{} %", number(100.0 * f64::from(d.probability))),
            (d.rank + 1).to_string(),
        ]
    };
    Some(Figure {
        id: "choice",
        title: "The choice",
        key: format!("{} bits", number(drawn)),
        finding: told(&free, model, drawn),
        caption: "Above: doubt about each token in bits (1 bit: two equal candidates), before the samplers in grey and behind them in orange. Below: the candidates of the chosen token, sampler by sampler; struck ones are out.",
        command: "lamina run --logprobs 10",
        colours: vec![("cg", "the model's doubt"), ("cb", "what the samplers left of it")],
        svg: canvas.finish(),
        follows: Some("stages"),
        table: (
            vec!["place", "token", "bits of the model", "bits drawn from", "probability", "rank"],
            all.iter().map(row).collect(),
        ),
        ..Figure::default()
    })
}

fn told(free: &[Doubt], model: f64, drawn: f64) -> String {
    let others = free.iter().filter(|d| d.rank > 0).count();
    let first = format!(
        "The model was unsure by *{} bits* a token, as among {} equal candidates; ",
        number(model),
        number(model.exp2())
    );
    let cut = match drawn {
        d if d < 0.005 => "the likeliest was always taken.".to_owned(),
        d => format!("the samplers cut that to *{} bits*.", number(d)),
    };
    let rest = match others {
        0 => " Every token was the model's first choice.".to_owned(),
        n => format!(" *{n}* of {} tokens were not the model's first choice.", free.len()),
    };
    first + &cut + &rest
}
