//! Every operator of one step over time.

use super::{
    Figure,
    axis::time_axis,
    canvas::{Anchor, Box2, Canvas, WIDTH},
    plan::op_role,
};
use crate::{
    format::{number, time},
    read::TextStrip,
    trace::Trace,
};

const LEFT: f64 = 110.0;

/// An operator that ran.
struct Ran {
    op: usize,
    begin: u64,
    ns: u64,
}

/// Lanes of the step whose time is in the middle, and of the prompt's first.
pub(super) fn lanes(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let steps: Vec<(&str, Vec<Ran>)> =
        [("the step of one token", strip.middle_decode), ("one step of the prompt", strip.first_prompt)]
            .into_iter()
            .filter_map(|(name, row)| Some((name, ran(trace, row?))))
            .filter(|(_, ran)| !ran.is_empty())
            .collect();
    let (_, first) = steps.first()?;
    let height: f64 = steps.iter().map(|(_, ran)| names(trace, ran).len() as f64 * 20.0 + 62.0).sum();
    let mut canvas = Canvas::new(height, "Operators of a step over time, a lane for each kind");
    let mut y = 0.0;
    for (name, ran) in &steps {
        canvas.text(0.0, y + 13.0, "s", Anchor::Start, name);
        y = draw(&mut canvas, trace, ran, y + 22.0) + 40.0;
    }
    let slowest = first.iter().max_by_key(|r| r.ns)?;
    let all: u64 = first.iter().map(|r| r.ns).sum();
    let span = first.last()?.begin + first.last()?.ns - first.first()?.begin;
    let op = &trace.plan.ops[slowest.op];
    let place = op.layer.map_or("at the end".to_owned(), |l| format!("in layer {l}"));
    let rows = first.iter().map(|r| {
        let op = &trace.plan.ops[r.op];
        let layer = op.layer.map_or(String::new(), |l| l.to_string());
        vec![r.op.to_string(), op.name.clone(), layer, time(r.ns as f64)]
    });
    Some(Figure {
        id: "lanes",
        title: "Every operator",
        key: format!("{} in a step", number(first.len() as f64)),
        finding: format!(
            "The slowest of *{}* operators was *{}* {place} with *{}*; {} % of the time lies between operators.",
            first.len(),
            op.name,
            time(slowest.ns as f64),
            number(100.0 * (span.saturating_sub(all)) as f64 / span.max(1) as f64)
        ),
        caption: "Time runs to the right, a lane for each kind of operator, colours as above. Timing each of them makes a step a little slower.",
        command: "lamina trace --chrome FILE (opens in Perfetto)",
        colours: vec![("cd", "vocabulary"), ("ca", "attention"), ("cb", "feed-forward"), ("cg", "others")],
        svg: canvas.finish(),
        table: (vec!["place in the plan", "operator", "layer", "time"], rows.collect()),
        ..Figure::default()
    })
}

fn ran(trace: &Trace, row: usize) -> Vec<Ran> {
    let (ops, step) = (&trace.events.op, trace.events.step.step[row]);
    let known = |&i: &usize| ops.step[i] == step && (ops.op[i] as usize) < trace.plan.ops.len();
    let one = |i| Ran { op: ops.op[i] as usize, begin: ops.begin[i], ns: ops.ns[i] };
    (0..ops.step.len()).filter(known).map(one).collect()
}

/// Kinds of operators in the order of their first one.
fn names<'t>(trace: &'t Trace, ran: &[Ran]) -> Vec<&'t str> {
    let mut names: Vec<&str> = vec![];
    for r in ran {
        let name = trace.plan.ops[r.op].name.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn draw(canvas: &mut Canvas, trace: &Trace, ran: &[Ran], y: f64) -> f64 {
    let (Some(first), Some(last)) = (ran.first(), ran.last()) else { return y };
    let span = (last.begin + last.ns - first.begin).max(1) as f64;
    let names = names(trace, ran);
    let scale = (WIDTH - LEFT) / span;
    for (lane, name) in names.iter().enumerate() {
        let at = y + lane as f64 * 20.0;
        canvas.text(0.0, at + 13.0, "", Anchor::Start, name);
        canvas.path(&format!("M{LEFT} {:.1}H{WIDTH}", at + 18.5), "l");
    }
    for r in ran {
        let op = &trace.plan.ops[r.op];
        let lane = names.iter().position(|n| *n == op.name).unwrap_or(0);
        let b = Box2::new(
            LEFT + (r.begin - first.begin) as f64 * scale,
            y + lane as f64 * 20.0 + 2.0,
            (r.ns as f64 * scale).max(0.8),
            15.0,
        );
        let layer = op.layer.map_or(String::new(), |l| format!(" of layer {l}"));
        canvas.mark(b, op_role(trace, op), &format!("{}{layer}: {}", op.name, time(r.ns as f64)), None);
    }
    let end = y + names.len() as f64 * 20.0;
    time_axis(canvas, (LEFT, end, WIDTH - LEFT), span);
    end
}
