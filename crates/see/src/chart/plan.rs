//! The plan: operators of one layer, and how often they come.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
    floor::role,
};
use crate::{
    format::{bytes, number, scaled},
    read::TextStrip,
    trace::{OpView, Trace},
};
use std::collections::BTreeMap;

/// Boxes of a row.
const COLUMNS: usize = 6;

/// Operators of the layer that most layers are like, with those before and behind.
pub(super) fn plan(trace: &Trace, _: &TextStrip) -> Option<Figure> {
    let ops = &trace.plan.ops;
    if ops.is_empty() {
        return None;
    }
    let mut layers: BTreeMap<u32, Vec<&OpView>> = BTreeMap::new();
    ops.iter().for_each(|op| layers.entry(op.layer.unwrap_or(u32::MAX)).or_default().push(op));
    layers.remove(&u32::MAX);
    let mut kinds: BTreeMap<Vec<&str>, Vec<u32>> = BTreeMap::new();
    for (layer, ops) in &layers {
        kinds.entry(ops.iter().map(|op| op.name.as_str()).collect()).or_default().push(*layer);
    }
    let common = kinds.values().max_by_key(|layers| layers.len())?;
    let first = ops.iter().position(|op| op.layer.is_some()).unwrap_or(0);
    let last = ops.iter().rposition(|op| op.layer.is_some()).unwrap_or(0);
    let layer = &layers[&common[0]];
    let shown: Vec<(&OpView, bool)> = (ops[..first].iter().map(|op| (op, false)))
        .chain(layer.iter().map(|op| (*op, true)))
        .chain(ops[last + 1..].iter().map(|op| (op, false)))
        .collect();
    let (svg, fused) = (draw(trace, &shown, common.len()), layer.iter().filter(|op| op.fused).count());
    let (flop, read) = ops.iter().fold((0, 0), |(f, b), op| (f + op.row_flop, b + op.row_bytes));
    let others = match kinds.len() {
        1 => String::new(),
        n => format!(" There are {n} kinds of layers; this one comes most often."),
    };
    let row = |op: &OpView| {
        let layer = op.layer.map_or(String::new(), |l| l.to_string());
        vec![op.name.clone(), layer, op.row_bytes.to_string(), op.row_flop.to_string()]
    };
    Some(Figure {
        id: "plan",
        title: "The plan",
        key: format!("{} operators", number(ops.len() as f64)),
        finding: format!(
            "One layer is *{} operators* ({fused} of them stand for several), {} times over.{others} A token costs *{}* and reads *{}*: two operations for each number, so a token alone waits for memory and not for arithmetic.",
            layer.len(),
            common.len(),
            scaled(flop as f64, "FLOP"),
            bytes(read as f64)
        ),
        caption: "Left to right: what a row goes through. The blue line is the residual, the row that every layer adds to.",
        command: "lamina trace --plan --format dot",
        colours: vec![("cd", "vocabulary"), ("ca", "attention"), ("cb", "feed-forward")],
        svg,
        table: (
            vec!["operator", "layer", "bytes of weights for a row", "FLOP of a row"],
            ops.iter().map(row).collect(),
        ),
        ..Figure::default()
    })
}

fn draw(trace: &Trace, shown: &[(&OpView, bool)], times: usize) -> String {
    let rows = shown.len().div_ceil(COLUMNS);
    let (w, step) = (142.0, WIDTH / COLUMNS as f64);
    let mut canvas = Canvas::new(
        rows as f64 * 128.0 + 12.0,
        "Operators in their order, with the bytes and operations of each",
    );
    for (i, (op, inside)) in shown.iter().enumerate() {
        let (x, y) = ((i % COLUMNS) as f64 * step + 8.0, (i / COLUMNS) as f64 * 128.0 + 26.0);
        let class = match op_role(trace, op) {
            "ca" => "boxa",
            "cb" => "boxb",
            "cd" => "boxd",
            _ => "box",
        };
        canvas.mark(Box2::new(x, y, w, 78.0), class, &op.name, None);
        canvas.text(x + 10.0, y + 20.0, "s", Anchor::Start, &op.name);
        for (line, name) in weights(trace, op).iter().enumerate() {
            canvas.text(x + 10.0, y + 37.0 + 13.0 * line as f64, "f", Anchor::Start, name);
        }
        let cost = match op.row_bytes {
            0 if op.token_bytes > 0.0 => format!("{} a token", bytes(op.token_bytes)),
            0 => String::new(),
            b => format!("{} · {}", bytes(b as f64), scaled(op.row_flop as f64, "FLOP")),
        };
        canvas.text(x + 10.0, y + 69.0, "f", Anchor::Start, &cost);
        if i % COLUMNS > 0 {
            canvas.path(&format!("M{:.1} {:.1}h15m-5 -4l5 4l-5 4", x - 18.0, y + 39.0), "lg");
        }
        if *inside {
            canvas.path(&format!("M{:.1} {:.1}h{step:.1}", x - 8.0, y - 10.0), "la");
        }
    }
    if let Some(i) = shown.iter().position(|(_, inside)| *inside) {
        let (x, y) = ((i % COLUMNS) as f64 * step + 4.0, (i / COLUMNS) as f64 * 128.0 + 11.0);
        canvas.text(x, y, "f", Anchor::Start, &format!("× {times} layers, along the residual"));
    }
    canvas.finish()
}

/// Colour of an operator by what it is for.
pub(super) fn op_role(trace: &Trace, op: &OpView) -> &'static str {
    let weights = op.weights.iter().filter_map(|w| trace.plan.weights.get(*w as usize));
    let roles: Vec<_> = weights.map(|w| role(&w.name)).filter(|r| *r != "cg").collect();
    match op.name.as_str() {
        "Attend" | "Attention" | "LatentAttend" | "Store" | "Rotate" | "HeadNorm" | "DeltaRule" | "Scan"
        | "Conv" => "ca",
        "Experts" | "Glu" => "cb",
        "Embed" => "cd",
        _ => roles.first().copied().unwrap_or("cg"),
    }
}

/// At most two lines that name what an operator works with.
fn weights(trace: &Trace, op: &OpView) -> Vec<String> {
    let all = op.weights.iter().filter_map(|w| trace.plan.weights.get(*w as usize));
    let named = all.filter(|w| w.shape.len() > 1).map(|w| {
        let part = w.name.split('.').rfind(|p| *p != "weight").unwrap_or_default();
        let shape = w.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("×");
        format!("{} {shape}", part.replace("attn_", "").replace("ffn_", ""))
    });
    let mut lines: Vec<String> = named.collect();
    if lines.len() > 2 {
        let more = lines.len() - 1;
        lines.truncate(1);
        lines.push(format!("and {more} more"));
    }
    lines
}
