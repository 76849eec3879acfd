//! All of it: where the time of all steps went.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{number, time},
    read::{TextStrip, phases},
    trace::Trace,
};

/// One bar for all steps, by phase.
pub(super) fn sums(trace: &Trace, _: &TextStrip) -> Option<Figure> {
    let phases = phases(trace);
    let all: u64 = phases.iter().map(|p| p.1).sum();
    if all == 0 {
        return None;
    }
    let words = ["who gets rows", "batch filled", "texts told", "machine", "tokens chosen", "tokens kept"];
    let classes = ["cg", "ce", "cc", "ca", "cb", "cd"];
    let mut canvas = Canvas::new(80.0, "Time of all steps by phase");
    let (mut x, mut label) = (0.0, 0.0);
    for ((word, class), (_, ns)) in words.iter().zip(classes).zip(phases) {
        let w = ns as f64 / all as f64 * WIDTH;
        let text = format!("{word} {}", time(ns as f64));
        canvas.mark(Box2::new(x, 4.0, w - 1.0, 34.0), class, &text, None);
        canvas.rect(Box2::new(label, 52.0, 9.0, 9.0), class);
        canvas.text(label + 14.0, 60.5, "f", Anchor::Start, &text);
        label += text.chars().count() as f64 * 6.2 + 30.0;
        x += w;
    }
    let machine = phases[3].1;
    let own = 100.0 * (all - machine) as f64 / all as f64;
    let steps = trace.events.step.step.len();
    let busy = match trace.run.starved_ns {
        Some(ns) if ns as f64 > 0.1 * trace.run.ns as f64 => {
            " This machine was busy with other programs: times vary."
        }
        _ => "",
    };
    let power = trace.run.joules.map_or_else(String::new, |joules| {
        format!(
            " The processor's packages took *{} J* meanwhile, other programs' part included.",
            number(joules)
        )
    });
    let gpus = trace
        .run
        .gpu_joules
        .map_or_else(String::new, |joules| format!(" The GPUs took *{} J*.", number(joules)));
    let row = |(word, (_, ns)): (&&str, (&str, u64))| vec![(*word).to_owned(), ns.to_string()];
    Some(Figure {
        id: "sums",
        title: "All of it",
        key: time(all as f64),
        finding: format!(
            "{} steps took *{}*; *{} %* of that was not the machine but the engine around it and what was recorded.{power}{gpus}{busy}",
            number(steps as f64),
            time(all as f64),
            number(own)
        ),
        caption: "All steps together, by what they did.",
        command: "lamina trace -o FILE.json",
        svg: canvas.finish(),
        table: (vec!["phase", "nanoseconds"], words.iter().zip(phases).map(row).collect()),
        ..Figure::default()
    })
}
