//! Rates as bars: the middle repeat, from the lowest to the highest as a whisker, what memory allows and what was predicted
//! as marks.

use super::RateBar;
use crate::{
    chart::{Anchor, Box2, Canvas, WIDTH, round_step},
    format::number,
};

/// Room for a name, and that of one of its letters.
const LEAST_LEFT: f64 = 150.0;
const LETTER: f64 = 7.2;
const ROW: f64 = 26.0;
const TOP: f64 = 28.0;

/// Lowest, middle and highest repeat.
fn range(bar: &RateBar) -> [f64; 3] {
    spread(&bar.repeats)
}

/// Lowest, middle and highest of some values.
pub(super) fn spread(values: &[f64]) -> [f64; 3] {
    let mut all = values.to_vec();
    all.sort_by(f64::total_cmp);
    match all.as_slice() {
        [] => [0.0; 3],
        all => [all[0], all[all.len() / 2], all[all.len() - 1]],
    }
}

pub(super) fn drawn(title: &str, unit: &str, bars: &[RateBar]) -> String {
    let limits = bars.iter().flat_map(|b| [b.limit, b.predicted]).flatten();
    let most = bars.iter().map(|b| range(b)[2]).chain(limits).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let letters = bars.iter().map(|b| b.name.chars().count()).max().unwrap_or(0);
    let left = (letters as f64 * LETTER + 16.0).clamp(LEAST_LEFT, WIDTH / 2.0);
    let width = WIDTH - left - 90.0;
    let at = |value: f64| left + value / most * width;
    let bottom = TOP + bars.len() as f64 * ROW;
    let mut canvas = Canvas::new(bottom + 30.0, title);
    let step = round_step(most, 6.0);
    let mut mark = 0.0;
    while mark <= most {
        canvas.path(&format!("M{:.1} {TOP}V{bottom:.1}", at(mark)), "l");
        canvas.text(at(mark), bottom + 16.0, "f", Anchor::Middle, &number(mark));
        mark += step;
    }
    canvas.text(left - 8.0, bottom + 16.0, "f", Anchor::End, unit);
    let keys = [
        ("memory allows", "ce", bars.iter().any(|b| b.limit.is_some())),
        ("predicted", "cd", bars.iter().any(|b| b.predicted.is_some())),
    ];
    let mut x = left;
    for (word, class, _) in keys.iter().filter(|key| key.2) {
        canvas.rect(Box2::new(x, 6.0, 3.0, 12.0), class);
        canvas.text(x + 8.0, 16.0, "f", Anchor::Start, word);
        x += 120.0;
    }
    for (i, bar) in bars.iter().enumerate() {
        let (y, [low, middle, high]) = (TOP + i as f64 * ROW, range(bar));
        let tip = format!("{}: {} {unit}, {} to {}", bar.name, number(middle), number(low), number(high));
        canvas.text(left - 8.0, y + 17.0, "", Anchor::End, &bar.name);
        canvas.mark(Box2::new(left, y + 5.0, at(middle) - left, ROW - 10.0), "ca", &tip, None);
        let line = y + ROW / 2.0;
        canvas.path(&format!("M{:.1} {line:.1}H{:.1}", at(low), at(high)), "li");
        for (value, class) in [(bar.limit, "ce"), (bar.predicted, "cd")] {
            value.iter().for_each(|v| canvas.rect(Box2::new(at(*v) - 1.5, y + 2.0, 3.0, ROW - 4.0), class));
        }
        let end = [Some(high), bar.limit, bar.predicted].into_iter().flatten().fold(0.0, f64::max);
        canvas.text(at(end) + 8.0, y + 17.0, "s", Anchor::Start, &number(middle));
    }
    canvas.finish()
}

pub(super) fn table(unit: &str, bars: &[RateBar]) -> (Vec<String>, Vec<Vec<String>>) {
    let heads = ["measured", unit, "lowest", "highest", "memory allows", "predicted"];
    let some = |value: Option<f64>| value.map_or_else(String::new, number);
    let row = |bar: &RateBar| {
        let [low, middle, high] = range(bar).map(number);
        vec![bar.name.clone(), middle, low, high, some(bar.limit), some(bar.predicted)]
    };
    (heads.map(str::to_owned).to_vec(), bars.iter().map(row).collect())
}
