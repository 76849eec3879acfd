//! The roofline: how much is calculated with each byte, against how fast (Williams, Waterman and Patterson 2009).

use super::{
    Figure,
    canvas::{Anchor, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, scaled},
    read::{OpLimit, TextStrip, op_limits},
    trace::Trace,
};

const LEFT: f64 = 86.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 262.0;

/// A logarithmic scale.
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Whole powers of ten around `values`.
    fn around(values: &[f64], start: f64, end: f64) -> Scale {
        let logs = || values.iter().map(|v| v.log10());
        let (low, high) = (logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max));
        Scale { from: low.floor(), to: high.ceil().max(low.floor() + 1.0), start, end }
    }

    fn at(&self, value: f64) -> f64 {
        self.start + (value.log10() - self.from) / (self.to - self.from) * (self.end - self.start)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.from as i32..=self.to as i32).map(|p| 10f64.powi(p))
    }
}

/// Operators as dots: those of a prompt's step and of a token's.
pub(super) fn roofline(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let bandwidth = trace.run.bandwidth?;
    let of = |row: Option<usize>, class| {
        let ops = row.map(|row| op_limits(trace, row)).unwrap_or_default();
        ops.into_iter().filter(|o| o.flop > 0.0 && o.bytes > 0.0 && o.ns > 0).map(move |o| (o, class))
    };
    let dots: Vec<(OpLimit, &str)> =
        of(strip.first_prompt, "ca").chain(of(strip.middle_decode, "cb")).collect();
    if dots.len() < 2 {
        return None;
    }
    let intensity = |o: &OpLimit| o.flop / o.bytes;
    let rate = |o: &OpLimit| o.flop / o.ns as f64 * 1e9;
    let x = Scale::around(&dots.iter().map(|d| intensity(&d.0)).collect::<Vec<_>>(), LEFT, WIDTH - 20.0);
    let y = Scale::around(&dots.iter().map(|d| rate(&d.0)).collect::<Vec<_>>(), BOTTOM, TOP);
    let mut canvas =
        Canvas::new(310.0, "Operations for each byte against operations per second, both logarithmic");
    grid(&mut canvas, &x, &y);
    slope(&mut canvas, &x, &y, bandwidth);
    for (op, class) in &dots {
        let what = if *class == "ca" { "prompt" } else { "one token" };
        let tip = format!(
            "{} ({what}): {} for a byte, {}",
            op.name,
            number(intensity(op)),
            scaled(rate(op), "FLOP/s")
        );
        let (at_x, at_y) = (x.at(intensity(op)), y.at(rate(op)));
        canvas.dot(at_x, at_y, 5.5, class, &tip);
    }
    names(
        &mut canvas,
        dots.iter().map(|(op, _)| (x.at(intensity(op)), y.at(rate(op)), op.name.as_str())).collect(),
    );
    let fastest = dots.iter().map(|d| rate(&d.0)).fold(0.0, f64::max);
    let rows = dots.iter().map(|(o, class)| {
        let step = if *class == "ca" { "prompt" } else { "token" };
        vec![step.to_owned(), o.name.clone(), number(intensity(o)), scaled(rate(o), "FLOP/s")]
    });
    Some(Figure {
        id: "roofline",
        title: "The roofline",
        key: scaled(fastest, "FLOP/s"),
        finding: told(&dots, fastest),
        caption: "Dots: operators of one kind together. On the slope memory is the limit, right of it and below it arithmetic is. Dots above the slope read from the processor's caches.",
        command: "lamina trace -o FILE.svg --figure roofline",
        colours: vec![("ca", "prompt"), ("cb", "one token"), ("ce", "bandwidth of memory")],
        svg: canvas.finish(),
        table: (vec!["step", "operator", "operations for a byte", "speed"], rows.collect()),
        ..Figure::default()
    })
}

/// Lines and numbers of both axes.
fn grid(canvas: &mut Canvas, x: &Scale, y: &Scale) {
    for power in x.powers() {
        let at = x.at(power);
        canvas.path(&format!("M{at:.1} {TOP}V{BOTTOM}"), "l");
        canvas.text(at, BOTTOM + 17.0, "f", Anchor::Middle, &number(power));
    }
    for power in y.powers() {
        let at = y.at(power);
        canvas.path(&format!("M{LEFT} {at:.1}H{WIDTH}"), "l");
        canvas.text(LEFT - 8.0, at + 4.0, "f", Anchor::End, &scaled(power, "FLOP/s"));
    }
    canvas.text(WIDTH - 20.0, BOTTOM + 38.0, "f", Anchor::End, "operations for each byte that is read →");
}

/// Names beside their dots, from above; one that would lie on another moves below it.
fn names(canvas: &mut Canvas, mut dots: Vec<(f64, f64, &str)>) {
    dots.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut placed: Vec<(f64, f64)> = vec![];
    for (x, y, name) in dots {
        let crosses = |at: f64| placed.iter().any(|(px, py)| (px - x).abs() < 90.0 && (py - at).abs() < 12.0);
        let at = (0..20).map(|i| y + 4.0 + 12.0 * f64::from(i)).find(|at| !crosses(*at)).unwrap_or(y);
        placed.push((x, at));
        let (anchor, beside) = if x > WIDTH - 120.0 { (Anchor::End, -9.0) } else { (Anchor::Start, 9.0) };
        canvas.text(x + beside, at, "f", anchor, name);
    }
}

/// The line on which reading takes all the time, as far as it lies inside.
fn slope(canvas: &mut Canvas, x: &Scale, y: &Scale, bandwidth: f64) {
    let (low, high) = (10f64.powf(x.from), 10f64.powf(x.to));
    let (bottom, top) = (10f64.powf(y.from) / bandwidth, 10f64.powf(y.to) / bandwidth);
    let (from, to) = (low.max(bottom), high.min(top));
    if from >= to {
        return;
    }
    let point = |i: f64| (x.at(i), y.at(i * bandwidth));
    let ((x1, y1), (x2, y2)) = (point(from), point(to));
    canvas.path(&format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"), "le");
    canvas.text(x2 + 6.0, y2 + 14.0, "f", Anchor::Start, &format!("{}/s", bytes(bandwidth)));
}

fn told(dots: &[(OpLimit, &str)], fastest: f64) -> String {
    let middle = |class: &str| {
        let of = dots.iter().filter(|d| d.1 == class);
        let (flop, bytes) = of.fold((0.0, 0.0), |(f, b), d| (f + d.0.flop, b + d.0.bytes));
        (bytes > 0.0).then(|| flop / bytes)
    };
    let compared = match (middle("ca"), middle("cb")) {
        (Some(prompt), Some(token)) => format!(
            "With each byte it read, the prompt did *{}* operations and a single token *{}*: that is why prompts are cheap and answers are not. ",
            number(prompt),
            number(token)
        ),
        _ => String::new(),
    };
    format!("{compared}The fastest operators did *{}*.", scaled(fastest, "FLOP/s"))
}
