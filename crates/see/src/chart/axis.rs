//! Axes: round steps, and logarithms.

use super::canvas::{Anchor, Canvas};

/// A round distance that divides `range` into about `parts`.
pub(crate) fn round_step(range: f64, parts: f64) -> f64 {
    let raw = (range / parts).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * power >= raw);
    step.unwrap_or(10.0) * power
}

/// Marks of time below a drawing, from `x` over `width`, of `ns` in all.
pub(crate) fn time_axis(canvas: &mut Canvas, (x, y, width): (f64, f64, f64), ns: f64) {
    let step = round_step(ns, 6.0);
    let mut at = 0.0;
    while at <= ns * 1.0001 {
        let place = x + at / ns.max(1.0) * width;
        canvas.path(&format!("M{place:.1} {:.1}v5", y), "l");
        // The last label does not leave the drawing.
        let anchor = if at == 0.0 {
            Anchor::Start
        } else if place > x + width - 20.0 {
            Anchor::End
        } else {
            Anchor::Middle
        };
        canvas.text(place, y + 17.0, "f", anchor, &crate::format::time(at));
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!([7.0, 65.0, 0.3].map(|r| round_step(r, 6.0)), [2.0, 20.0, 0.05]);
    }
}
