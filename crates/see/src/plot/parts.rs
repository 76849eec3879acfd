//! Parts of memory in one bar, against what there may be.

use crate::{
    chart::{Anchor, Box2, Canvas, WIDTH},
    format::bytes,
};

const CLASSES: [&str; 6] = ["ca", "cb", "cc", "cd", "ce", "cg"];

pub(super) fn drawn(title: &str, parts: &[(String, u64)], budget: Option<u64>) -> String {
    let all: u64 = parts.iter().map(|p| p.1).sum();
    let scale = (WIDTH - 2.0) / all.max(budget.unwrap_or(0)).max(1) as f64;
    let rows = parts.len().div_ceil(3) as f64;
    let mut canvas = Canvas::new(72.0 + rows * 20.0, title);
    let mut x = 0.0;
    for (i, (name, size)) in parts.iter().enumerate() {
        let (class, w) = (CLASSES[i % CLASSES.len()], *size as f64 * scale);
        let label = format!("{name} {}", bytes(*size as f64));
        canvas.mark(Box2::new(x, 20.0, w - 1.0, 30.0), class, &label, None);
        let (column, row) = ((i % 3) as f64, (i / 3) as f64);
        canvas.rect(Box2::new(column * WIDTH / 3.0, 64.0 + row * 20.0, 9.0, 9.0), class);
        canvas.text(column * WIDTH / 3.0 + 14.0, 72.5 + row * 20.0, "f", Anchor::Start, &label);
        x += w;
    }
    if let Some(budget) = budget {
        let end = budget as f64 * scale;
        let words = format!("at most {}, taken {}", bytes(budget as f64), bytes(all as f64));
        canvas.path(&format!("M{end:.1} 14V56"), "li");
        canvas.text(end, 10.0, "f", Anchor::End, &words);
    }
    canvas.finish()
}
