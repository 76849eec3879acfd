//! Where the model lies: its weights by layer, and the memory of the process.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number},
    read::TextStrip,
    trace::{Trace, WeightView},
};
use std::collections::BTreeMap;

/// Left of the bars.
const LABELS: f64 = 86.0;

/// Colour of a weight by what it is for.
pub(super) fn role(name: &str) -> &'static str {
    let part = name.rsplit_once("blk.").map_or(name, |(_, part)| part);
    match part {
        p if p.contains("ffn") => "cb",
        p if p.contains("attn") || p.contains("ssm") || p.contains("conv") || p.contains("shortconv") => "ca",
        p if p.starts_with("token_embd") || p.starts_with("output") || p.starts_with("position") => "cd",
        _ => "cg",
    }
}

/// The layer in a weight's name.
fn layer(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// One row for each layer, as wide as its bytes.
pub(super) fn floor(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let weights = &trace.plan.weights;
    if weights.is_empty() {
        return None;
    }
    let mut rows: BTreeMap<Option<u32>, Vec<&WeightView>> = BTreeMap::new();
    weights.iter().for_each(|w| rows.entry(layer(&w.name)).or_default().push(w));
    let sum = |row: &[&WeightView]| row.iter().map(|w| w.bytes).sum::<u64>();
    let widest = rows.values().map(|row| sum(row)).max().unwrap_or(1).max(1) as f64;
    let h = (520.0 / rows.len() as f64).clamp(9.0, 30.0);
    let mut canvas =
        Canvas::new(rows.len() as f64 * (h + 4.0) + 104.0, "Weights of each layer, as wide as their bytes");
    let mut y = 4.0;
    for (layer, row) in &rows {
        let label = layer.map_or("in and out".to_owned(), |l| format!("layer {l}"));
        if h > 12.0 || layer.is_none_or(|l| l % 4 == 0) {
            canvas.text(0.0, y + h / 2.0 + 4.0, "f", Anchor::Start, &label);
        }
        let mut x = LABELS;
        for w in row {
            let wide = w.bytes as f64 / widest * (WIDTH - LABELS);
            let shape = w.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            let tip = format!("{}: {shape}, {}, {}", w.name, w.r#type, bytes(w.bytes as f64));
            canvas.mark(Box2::new(x, y, (wide - 1.2).max(0.3), h), role(&w.name), &tip, None);
            if wide > 52.0 && h > 14.0 {
                canvas.text(x + 6.0, y + h / 2.0 + 4.0, "w", Anchor::Start, &short(&w.name));
            }
            x += wide;
        }
        y += h + 4.0;
    }
    process(&mut canvas, trace, strip, y + 14.0);
    let total: u64 = weights.iter().map(|w| w.bytes).sum();
    let table = weights.iter().map(|w| {
        let shape = w.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        vec![w.name.clone(), shape, w.r#type.clone(), w.bytes.to_string()]
    });
    Some(Figure {
        id: "floor",
        title: "Where it lives",
        key: bytes(total as f64),
        finding: told(trace, total),
        caption: "Upper rows: the weights of each layer, widths are bytes. Lower bar: the memory of this process.",
        command: "lamina inspect MODEL",
        colours: vec![
            ("cd", "vocabulary"),
            ("ca", "attention"),
            ("cb", "feed-forward"),
            ("cg", "norms and others"),
        ],
        svg: canvas.finish(),
        table: (vec!["weight", "shape", "type", "bytes"], table.collect()),
        ..Figure::default()
    })
}

fn told(trace: &Trace, total: u64) -> String {
    let m = &trace.run.model;
    let process = trace
        .run
        .process_bytes
        .map_or(String::new(), |all| format!("the whole process holds *{}*, and ", bytes(all as f64)));
    format!(
        "{} weights are *{}* ({} numbers, most of them {}); {process}every token of context takes *{}* more.",
        number(trace.plan.weights.len() as f64),
        bytes(total as f64),
        number(m.params as f64),
        m.r#type,
        bytes(m.kv_bytes_per_token)
    )
}

/// The memory of the process: weights, cache of this text, the rest.
fn process(canvas: &mut Canvas, trace: &Trace, strip: &TextStrip, y: f64) {
    let Some(all) = trace.run.process_bytes.filter(|all| *all > 0) else { return };
    let weights = trace.run.model.bytes.min(all);
    let cache = (trace.run.model.kv_bytes_per_token * strip.tokens.len() as f64) as u64;
    let rest = all.saturating_sub(weights + cache);
    canvas.text(0.0, y + 8.0, "f", Anchor::Start, "memory of the process");
    let (mut x, mut label) = (0.0, 0.0);
    let parts = [
        ("weights", weights, "cd"),
        ("cache of this text", cache, "ca"),
        ("program, buffers, room for other texts", rest, "cg"),
    ];
    for (name, part, class) in parts {
        let wide = part as f64 / all as f64 * WIDTH;
        let text = format!("{name} {}", bytes(part as f64));
        canvas.mark(Box2::new(x, y + 16.0, wide - 1.0, 26.0), class, &text, None);
        canvas.rect(Box2::new(label, y + 54.0, 9.0, 9.0), class);
        canvas.text(label + 14.0, y + 62.5, "f", Anchor::Start, &text);
        label += text.chars().count() as f64 * 6.3 + 36.0;
        x += wide;
    }
}

fn short(name: &str) -> String {
    let part = name.split('.').filter(|p| *p != "blk" && *p != "weight" && p.parse::<u32>().is_err());
    part.collect::<Vec<_>>()
        .join(".")
        .replace("attn_", "")
        .replace("ffn_", "")
        .replace("token_embd", "embedding")
}
