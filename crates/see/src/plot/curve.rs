//! One value after another, as a line; the range of each as a whisker, and what memory allows as a line of its own.

use super::{PlotCurve, bars::spread};
use crate::{
    chart::{Anchor, Canvas, WIDTH, round_step},
    format::number,
};
use std::fmt::Write;

const LEFT: f64 = 64.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 244.0;

impl PlotCurve {
    /// A curve of measurements, each with its place and its repeats: the middle ones, and their ranges.
    pub fn measured<'a>(
        name: &'static str,
        along: &'static str,
        all: impl IntoIterator<Item = (f64, &'a [f64])>,
    ) -> PlotCurve {
        let mut curve = PlotCurve { name, along, ..PlotCurve::default() };
        for (place, repeats) in all {
            let [low, middle, high] = spread(repeats);
            curve.places.push(place);
            curve.values.push(middle);
            curve.ranges.push((low, high));
        }
        curve
    }

    pub(super) fn drawn(&self, title: &str) -> String {
        let highest = self.ranges.iter().map(|range| &range.1);
        let all = self.values.iter().chain(highest).chain(&self.limits);
        let high = all.filter(|v| v.is_finite()).copied().fold(0.0, f64::max).max(1e-9);
        let last = self.places.iter().copied().fold(1.0, f64::max);
        let x = |place: f64| LEFT + place / last * (WIDTH - LEFT - 20.0);
        let y = |value: f64| BOTTOM - value / high * (BOTTOM - TOP);
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
        let limited = if self.limits.is_empty() { "" } else { "; gold: what memory allows" };
        let below = format!("{}, along {}{limited}", self.name, self.along);
        canvas.text(LEFT, BOTTOM + 34.0, "f", Anchor::Start, &below);
        canvas.path(&line(&self.places, &self.limits, &x, &y), "le");
        for (place, (low, high)) in self.places.iter().zip(&self.ranges) {
            let (x, low, high) = (x(*place), y(*low), y(*high));
            canvas.path(
                &format!("M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8", x - 4.0, x - 4.0),
                "lg",
            );
        }
        canvas.path(&line(&self.places, &self.values, &x, &y), "la");
        canvas.finish()
    }

    /// Heads and rows of its numbers.
    pub(super) fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let more = [
            ("lowest", !self.ranges.is_empty()),
            ("highest", !self.ranges.is_empty()),
            ("memory allows", !self.limits.is_empty()),
        ];
        let mut heads = vec![self.along.to_owned(), self.name.to_owned()];
        heads.extend(more.iter().filter(|(_, there)| *there).map(|(name, _)| (*name).to_owned()));
        let row = |(i, (place, value)): (usize, (&f64, &f64))| {
            let mut row = vec![place.to_string(), value.to_string()];
            row.extend(self.ranges.get(i).iter().flat_map(|(low, high)| [low.to_string(), high.to_string()]));
            row.extend(self.limits.get(i).map(f64::to_string));
            row
        };
        (heads, self.places.iter().zip(&self.values).enumerate().map(row).collect())
    }
}

/// A path through the values that are numbers.
fn line(places: &[f64], values: &[f64], x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    let mut line = String::new();
    for (place, value) in places.iter().zip(values).filter(|(_, v)| v.is_finite()) {
        let _ = write!(line, "{}{:.1} {:.1}", if line.is_empty() { 'M' } else { 'L' }, x(*place), y(*value));
    }
    line
}
