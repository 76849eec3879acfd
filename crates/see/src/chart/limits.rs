//! Times of operators against the memory's limit.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, scaled, time},
    read::{OpLimit, TextStrip, op_limits, step_limits},
    trace::Trace,
};

/// Kinds of operators that are drawn for each step.
const MOST: usize = 8;

/// A bar for each kind of operator of a prompt's step and of a token's step, with the limit as a mark.
pub(super) fn limits(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let row = strip.middle_decode.or(strip.first_prompt)?;
    let groups: Vec<(&str, &str, usize, Vec<OpLimit>)> = [
        ("one step of the prompt", "ca", strip.first_prompt),
        ("the step of one token", "cb", strip.middle_decode),
    ]
    .into_iter()
    .filter_map(|(name, class, row)| Some((name, class, row?, op_limits(trace, row?))))
    .filter(|(.., ops)| !ops.is_empty())
    .collect();
    if groups.is_empty() {
        return None;
    }
    let lines: usize = groups.iter().map(|(.., ops)| ops.len().min(MOST)).sum();
    let height = lines as f64 * 27.0 + groups.len() as f64 * 44.0;
    let mut canvas =
        Canvas::new(height, "Time of each kind of operator, with the time that its bytes need at least");
    let mut y = 0.0;
    for (name, class, row, ops) in &groups {
        let limit = step_limits(trace, *row);
        canvas.text(0.0, y + 16.0, "s", Anchor::Start, name);
        canvas.text(230.0, y + 16.0, "f", Anchor::Start, &format!("{} in all", time(limit.ns as f64)));
        y = bars(&mut canvas, ops, class, y + 26.0) + 18.0;
    }
    let limit = step_limits(trace, row);
    let rows = groups.iter().flat_map(|(name, _, _, ops)| {
        ops.iter().map(|o| {
            let least = o.memory_ns.map_or(String::new(), time);
            vec![
                (*name).to_owned(),
                o.name.clone(),
                o.count.to_string(),
                time(o.ns as f64),
                least,
                bytes(o.bytes),
                scaled(o.flop, "FLOP"),
            ]
        })
    });
    Some(Figure {
        id: "limits",
        title: "Against limits",
        key: limit.memory_ns.map_or_else(|| time(limit.ns as f64), time),
        finding: told(trace, &limit, strip.middle_decode.is_some()),
        caption: "Bars: measured, operators of one kind together. Marks: the bytes of that kind, read once at the measured bandwidth.",
        command: "lamina bench --profile",
        colours: vec![("ca", "prompt"), ("cb", "one token"), ("ce", "limit of memory")],
        svg: canvas.finish(),
        table: (vec!["step", "operator", "calls", "time", "limit", "bytes", "operations"], rows.collect()),
        ..Figure::default()
    })
}

fn bars(canvas: &mut Canvas, ops: &[OpLimit], class: &str, mut y: f64) -> f64 {
    const LEFT: f64 = 110.0;
    let longest = ops.iter().map(|o| o.ns).max().unwrap_or(1).max(1) as f64;
    let scale = (WIDTH - LEFT - 250.0) / longest;
    for op in ops.iter().take(MOST) {
        let (w, ns) = (op.ns as f64 * scale, op.ns as f64);
        canvas.text(0.0, y + 14.0, "", Anchor::Start, &op.name);
        let rate = if op.flop > 0.0 {
            format!(" · {}", scaled(op.flop / ns * 1e9, "FLOP/s"))
        } else {
            String::new()
        };
        let tip = format!("{}: {} calls, {}, {}", op.name, op.count, time(ns), bytes(op.bytes));
        canvas.mark(Box2::new(LEFT, y, w, 19.0), class, &tip, None);
        let mut end = LEFT + w;
        if let Some(least) = op.memory_ns.filter(|_| op.bytes > 0.0) {
            let x = LEFT + (least * scale).min(WIDTH - LEFT - 220.0);
            canvas.path(&format!("M{x:.1} {:.1}v25", y - 3.0), "le");
            end = end.max(x);
        }
        canvas.text(end + 8.0, y + 14.0, "f", Anchor::Start, &format!("{}{rate}", time(ns)));
        y += 27.0;
    }
    y
}

fn told(trace: &Trace, limit: &OpLimit, decodes: bool) -> String {
    let what = if decodes { "The step of one token" } else { "The prompt's step" };
    let ns = limit.ns as f64;
    let Some(least) = limit.memory_ns else {
        return format!(
            "{what} moves *{}* and calculates *{}*; it took *{}*.",
            bytes(limit.bytes),
            scaled(limit.flop, "FLOP"),
            time(ns)
        );
    };
    let bandwidth = bytes(trace.run.bandwidth.unwrap_or_default());
    let share = 100.0 * least / ns;
    let first = format!(
        "{what} has to read *{}*, which takes *{}* at the {bandwidth}/s that were measured beside it; it took *{}*.",
        bytes(limit.bytes),
        time(least),
        time(ns)
    );
    let rest = match limit.bytes {
        b if b < 30e6 => " The model fits the caches of the processor, so the marks are no floor here: what costs is small products and what lies between them.".to_owned(),
        _ if share > 60.0 => format!(" It is at *{} %* of what memory can give.", number(share)),
        _ => format!(" That is *{} %* of what memory can give: the distance to the marks is what is left to win.", number(share)),
    };
    first + &rest
}
