//! The plan as text and as graphs: what no model file has.

use crate::{
    format::{bytes, scaled},
    trace::{OpView, PlanView},
};
use std::fmt::Write;

/// Operators with their layers folded: equal layers are one entry, with how often they come.
fn folded(plan: &PlanView) -> Vec<(usize, Vec<&OpView>)> {
    let parts = plan.ops.chunk_by(|a, b| a.layer == b.layer);
    let mut out: Vec<(usize, Vec<&OpView>)> = vec![];
    for part in parts {
        let part: Vec<&OpView> = part.iter().collect();
        let same = |other: &Vec<&OpView>| {
            other.iter().map(|o| &o.name).eq(part.iter().map(|o| &o.name)) && part[0].layer.is_some()
        };
        match out.last_mut().filter(|(_, last)| same(last)) {
            Some((times, _)) => *times += 1,
            None => out.push((1, part)),
        }
    }
    out
}

fn cost(op: &OpView) -> String {
    match op.row_bytes {
        0 if op.token_bytes > 0.0 => format!("{} a token", bytes(op.token_bytes)),
        0 => String::new(),
        b => format!("{}, {}", bytes(b as f64), scaled(op.row_flop as f64, "FLOP")),
    }
}

/// Lines of operators.
pub fn plan_text(plan: &PlanView) -> String {
    let mut out = String::new();
    for (times, ops) in folded(plan) {
        if times > 1 || ops[0].layer.is_some() {
            let _ = writeln!(out, "layer {} x {times}", ops[0].layer.unwrap_or(0));
        }
        for op in ops {
            let indent = if op.layer.is_some() { "  " } else { "" };
            let weights = op.weights.iter().filter_map(|w| plan.weights.get(*w as usize));
            let names: Vec<&str> = weights.filter(|w| w.shape.len() > 1).map(|w| w.name.as_str()).collect();
            let _ = writeln!(out, "{indent}{:<14} {:<28} {}", op.name, cost(op), names.join(" "));
        }
    }
    out
}

/// A graph for Graphviz.
pub fn dot(plan: &PlanView) -> String {
    let mut out = "digraph plan {\n  rankdir=LR; node [shape=box, fontname=\"sans-serif\"];\n".to_owned();
    let mut n = 0;
    for (part, (times, ops)) in folded(plan).into_iter().enumerate() {
        if ops[0].layer.is_some() {
            let _ = writeln!(out, "  subgraph cluster_{part} {{ label=\"{times} layers\";");
        }
        for op in &ops {
            let _ = writeln!(out, "  op{n} [label=\"{}\\n{}\"];", op.name, cost(op));
            n += 1;
        }
        if ops[0].layer.is_some() {
            out += "  }\n";
        }
    }
    (1..n).for_each(|i| _ = writeln!(out, "  op{} -> op{i};", i - 1));
    out + "}\n"
}

/// A graph for Mermaid.
pub fn mermaid(plan: &PlanView) -> String {
    let mut out = "flowchart LR\n".to_owned();
    let mut n = 0;
    for (part, (times, ops)) in folded(plan).into_iter().enumerate() {
        if ops[0].layer.is_some() {
            let _ = writeln!(out, "  subgraph part{part} [\"{times} layers\"]");
        }
        for op in &ops {
            let _ = writeln!(out, "  op{n}[\"{}<br>{}\"]", op.name, cost(op));
            n += 1;
        }
        if ops[0].layer.is_some() {
            out += "  end\n";
        }
    }
    (1..n).for_each(|i| _ = writeln!(out, "  op{} --> op{i}", i - 1));
    out
}
