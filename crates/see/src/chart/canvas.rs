//! SVG as text. Colours and sizes are classes, so that a page's themes and print apply.

use crate::format::escape;
use std::fmt::Write;

/// Width of figures; they scale to the column they stand in.
pub(crate) const WIDTH: f64 = 980.0;

/// The style of figures, for a page and for files of their own.
pub const STYLE: &str = include_str!("../page/figure.css");

/// Where a text stands against its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows.
pub(crate) struct Canvas {
    height: f64,
    label: String,
    body: String,
}

/// A rectangle.
#[derive(Clone, Copy)]
pub(crate) struct Box2 {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Box2 {
    pub fn new(x: f64, y: f64, w: f64, h: f64) -> Box2 {
        Box2 { x, y, w, h }
    }
}

impl Canvas {
    /// `label` says for screen readers what is drawn.
    pub fn new(height: f64, label: &str) -> Canvas {
        Canvas { height, label: label.to_owned(), body: String::new() }
    }

    /// A rectangle of a class.
    pub fn rect(&mut self, b: Box2, class: &str) {
        let (w, h) = (b.w.max(0.4), b.h);
        let _ = write!(
            self.body,
            r#"<rect x="{:.2}" y="{:.2}" width="{w:.2}" height="{h:.2}" class="{class}"/>"#,
            b.x, b.y
        );
    }

    /// A rectangle that says what it is; choosing it chooses the token at `place`.
    pub fn mark(&mut self, b: Box2, class: &str, tip: &str, place: Option<usize>) {
        let chosen = place.map_or(String::new(), |p| format!(r#" data-t="{p}""#));
        let _ = write!(self.body, "<g{chosen}>");
        self.rect(b, class);
        let _ = write!(self.body, "<title>{}</title></g>", escape(tip));
    }

    /// A text.
    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let text = escape(text);
        let _ = write!(self.body, r#"<text x="{x:.2}" y="{y:.2}" class="{class}"{anchor}>{text}</text>"#);
    }

    /// A path.
    pub fn path(&mut self, d: &str, class: &str) {
        let _ = write!(self.body, r#"<path d="{d}" class="{class}"/>"#);
    }

    /// A circle that says what it is.
    pub fn dot(&mut self, x: f64, y: f64, r: f64, class: &str, tip: &str) {
        let tip = escape(tip);
        let _ = write!(
            self.body,
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{r:.2}" class="{class}"><title>{tip}</title></circle>"#
        );
    }

    /// A PNG that says what it is; its pixels stay squares.
    pub fn image(&mut self, b: Box2, png: &[u8], tip: &str) {
        let (x, y, w, h, address, tip) = (b.x, b.y, b.w, b.h, super::picture::address(png), escape(tip));
        let _ = write!(
            self.body,
            r#"<g><image x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}" preserveAspectRatio="none" style="image-rendering:pixelated" href="{address}"/><title>{tip}</title></g>"#
        );
    }

    /// The drawing as text.
    pub fn finish(self) -> String {
        let (label, body, height) = (escape(&self.label), self.body, self.height);
        format!(r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{label}">{body}</svg>"#)
    }
}

/// A drawing as a file of its own, with its style.
pub fn standalone(svg: &str) -> String {
    let head = format!(r#"<svg xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>"#);
    // What a page's drawing begins with gets the name space and the style.
    match svg.split_once('>') {
        Some((open, rest)) => {
            let open = open.replacen("<svg", r#"<svg xmlns="http://www.w3.org/2000/svg" width="980""#, 1);
            format!("{open}><style>{STYLE}</style>{rest}\n")
        }
        None => format!("{head}</svg>\n"),
    }
}
