//! One value after another, as a line.

use crate::{
    chart::{Anchor, Canvas, WIDTH, round_step},
    format::number,
};
use std::fmt::Write;

const LEFT: f64 = 64.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 244.0;

pub(super) fn drawn(title: &str, (name, along): (&str, &str), values: &[f64], places: &[f64]) -> String {
    let sound = |v: &&f64| v.is_finite();
    let (low, high) = (0.0, values.iter().filter(sound).copied().fold(0.0, f64::max).max(1e-9));
    let last = places.iter().copied().fold(1.0, f64::max);
    let x = |place: f64| LEFT + place / last * (WIDTH - LEFT - 20.0);
    let y = |value: f64| BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP);
    let mut canvas = Canvas::new(BOTTOM + 40.0, title);
    let mut at = 0.0;
    while at <= high {
        canvas.path(&format!("M{LEFT} {:.1}H{:.1}", y(at), WIDTH - 20.0), "l");
        canvas.text(LEFT - 8.0, y(at) + 4.0, "f", Anchor::End, &number(at));
        at += round_step(high, 5.0);
    }
    let mut at = 0.0;
    while at <= last {
        canvas.text(x(at), BOTTOM + 17.0, "f", Anchor::Middle, &number(at));
        at += round_step(last, 8.0);
    }
    canvas.text(LEFT, BOTTOM + 34.0, "f", Anchor::Start, &format!("{name}, along {along}"));
    let mut line = String::new();
    for (place, value) in places.iter().zip(values).filter(|(_, v)| sound(v)) {
        let _ = write!(line, "{}{:.1} {:.1}", if line.is_empty() { 'M' } else { 'L' }, x(*place), y(*value));
    }
    canvas.path(&line, "la");
    canvas.finish()
}
