//! The memory of the text: pages of keys and values.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, visible},
    read::TextStrip,
    trace::Trace,
};

/// Tokens that are drawn.
const MOST: usize = 1024;

/// A cell for each token, a row for each page.
pub(super) fn pages(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let (page, tokens) = (trace.run.page_tokens as usize, strip.tokens.len());
    if page == 0 || tokens == 0 || trace.run.model.kv_bytes_per_token <= 0.0 {
        return None;
    }
    const LEFT: f64 = 170.0;
    // The last token is chosen and not computed: nothing of it is kept.
    let kept = tokens - usize::from(strip.prompt_len() < tokens);
    let shown = kept.min(MOST);
    let count = shown.div_ceil(page);
    let (w, h) = ((WIDTH - LEFT) / page as f64, 30.0);
    let mut canvas = Canvas::new(
        count as f64 * h + 8.0,
        "A cell for each token whose keys and values are kept, a row for each page",
    );
    let e = &trace.events.page;
    for number in 0..count {
        canvas.text(0.0, number as f64 * h + 19.0, "f", Anchor::Start, &label(trace, strip, number));
    }
    for place in 0..count * page {
        let b =
            Box2::new(LEFT + (place % page) as f64 * w, (place / page) as f64 * h + 3.0, w - 2.0, h - 6.0);
        let Some(token) = strip.tokens.get(place).filter(|_| place < kept) else {
            canvas.rect(b, "co");
            continue;
        };
        let class = match token.prompt {
            true if place < strip.cached as usize => "cc",
            true => "ca",
            false => "cb",
        };
        canvas.mark(b, class, &format!("{place}: {}", visible(trace.word(token.id), 30)), Some(place));
    }
    let rows = (0..e.page.len()).filter(|&i| Some(e.sequence[i]) == strip.sequence);
    let row = |i: usize| {
        vec![e.place[i].to_string(), e.group[i].to_string(), e.page[i].to_string(), e.what[i].clone()]
    };
    let size = trace.run.model.kv_bytes_per_token * kept as f64;
    Some(Figure {
        id: "pages",
        title: "The memory",
        key: bytes(size),
        finding: told(strip, kept, page, size, shown),
        caption: "A cell is what all layers keep of one token; a row is a page. Whole pages are found again by what they hold. `at` is the page's place in memory.",
        command: "lamina:kv_pages in /metrics",
        colours: vec![("ca", "prompt, computed"), ("cc", "prompt, found"), ("cb", "answer")],
        svg: canvas.finish(),
        table: (vec!["page of the text", "layer group", "place in memory", "how"], rows.map(row).collect()),
        ..Figure::default()
    })
}

/// Which page of memory a page of the text came to first, and how.
fn label(trace: &Trace, strip: &TextStrip, number: usize) -> String {
    let e = &trace.events.page;
    let own = |i: &usize| Some(e.sequence[*i]) == strip.sequence && e.place[*i] as usize == number;
    (0..e.page.len()).find(own).map_or(format!("page {number}"), |i| {
        let how = match e.what[i].as_str() {
            "find" => ", found",
            "copy" => ", copied",
            "hold" => ", shared",
            _ => "",
        };
        format!("page {number} at {}{how}", e.page[i])
    })
}

fn told(strip: &TextStrip, kept: usize, page: usize, size: f64, shown: usize) -> String {
    let mut text = format!(
        "Keys and values of {} tokens fill *{} pages* of {page}: *{}*. ",
        number(kept as f64),
        number(kept as f64 / page as f64),
        bytes(size)
    );
    text += &match strip.cached {
        0 => "Nothing of this prompt was there before.".to_owned(),
        n => format!("*{n}* tokens of the prompt were found from an earlier request and not computed again."),
    };
    if shown < kept {
        text += &format!(" The first {shown} are drawn.");
    }
    text
}
