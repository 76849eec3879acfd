//! The page of a trace: one file that asks nobody for anything.
//!
//! Drawings and sentences are made here, so that the page can be read, printed and searched without its script. The script
//! lets all figures follow one token.

use crate::{
    chart::{Figure, PastFigure, STYLE, against, figures, told_of},
    format::{escape, number, time, visible},
    read::TextStrip,
    trace::Trace,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt::Write};

mod data;

const PAGE: &str = include_str!("trace.html");
const PAGE_STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script/trace.js");
/// Rows of a table behind a figure.
const MOST_ROWS: usize = 1000;

/// The page of a trace. Its security policy admits its own script and nothing else: no request leaves it.
pub fn trace_page(trace: &Trace) -> String {
    page(trace, &figures(trace), "")
}

/// The page of a trace in which each figure shows an older one too.
pub fn against_page(trace: &Trace, old: &Trace) -> String {
    page(trace, &against(trace, old), &note(&told_of(trace, old)))
}

fn page(trace: &Trace, figures: &[Figure], compared: &str) -> String {
    let strip = TextStrip::of(trace);
    let script = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    );
    let stations: String = figures.iter().enumerate().map(|(i, f)| station(i, f)).collect();
    let parts = [
        ("policy", policy),
        ("style", format!("{STYLE}{PAGE_STYLE}")),
        ("title", escape(&trace.run.model.name)),
        ("nav", figures.iter().map(nav).collect()),
        ("strip", text(trace, &strip)),
        ("sub", sub(trace)),
        ("busy", compared.to_owned() + &busy(trace)),
        ("keys", keys(trace, &strip)),
        ("stations", stations),
        ("numbers", escape(&serde_json::to_string_pretty(&crate::read::summary(trace)).unwrap_or_default())),
        ("data", data::data(trace, &strip)),
        ("script", SCRIPT.to_owned()),
    ];
    fill(&parts.into_iter().collect())
}

/// Puts the parts into the page in one pass: what a part contains is never looked at again.
fn fill(parts: &BTreeMap<&str, String>) -> String {
    let mut out = String::new();
    for (i, piece) in PAGE.split("{{").enumerate() {
        match piece.split_once("}}").filter(|_| i > 0) {
            Some((name, rest)) => {
                out.push_str(parts.get(name).map_or("", String::as_str));
                out.push_str(rest);
            }
            None => out.push_str(piece),
        }
    }
    out
}

fn nav(f: &Figure) -> String {
    format!(r##"<a href="#{}">{}<i>{}</i></a>"##, f.id, escape(f.title), escape(&f.key))
}

/// A figure with what it says, and its numbers.
fn station(i: usize, f: &Figure) -> String {
    let colours: String = f
        .colours
        .iter()
        .map(|(class, word)| format!(r#"<span><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" class="{class}"/></svg>{}</span>"#, escape(word)))
        .collect();
    let follows = f
        .follows
        .map_or(String::new(), |name| format!(r#"<div data-follow="{name}" aria-live="polite"></div>"#));
    format!(
        r#"<section id="{id}" aria-labelledby="h-{id}"><h2 id="h-{id}">{n} · {title}</h2><p class="say">{say}</p><figure tabindex="0" aria-label="{title}, Enter opens it large"><div class="key">{colours}</div>{svg}{before}{follows}<figcaption>{caption} <code>{command}</code></figcaption>{table}</figure></section>"#,
        id = f.id,
        n = i + 1,
        title = escape(f.title),
        say = emphasis(&f.finding),
        svg = f.svg,
        before = f.before.as_ref().map_or(String::new(), before),
        caption = escape(f.caption),
        command = escape(f.command),
        table = table(f),
    )
}

/// What an older recording showed.
fn before(past: &PastFigure) -> String {
    // Not by the name of the newer one beside it.
    let svg = past.svg.replacen(r#"aria-label=""#, r#"aria-label="Before: "#, 1);
    format!(r#"<div class="then"><p>Before: {}</p>{svg}</div>"#, emphasis(&past.finding))
}

/// `*words*` as what matters.
fn emphasis(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('*').enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { format!("<b>{part}</b>") } else { part.to_owned() }).collect()
}

fn table(f: &Figure) -> String {
    let (heads, rows) = &f.table;
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|c| format!("<{tag}>{c}</{tag}>")).collect();
        format!("<tr>{cells}</tr>")
    };
    let head = cells("th", &mut heads.iter().map(|h| escape(h)));
    let body: String = rows
        .iter()
        .take(MOST_ROWS)
        .map(|r| cells("td", &mut r.iter().map(|c| format!("<bdi>{}</bdi>", escape(c)))))
        .collect();
    let more = match rows.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        n => format!("<p>and {n} more, which are in the recording</p>"),
    };
    format!(
        "<details><summary>numbers</summary><div class=\"scroll\"><table><thead>{head}</thead><tbody>{body}</tbody></table>{more}</div></details>"
    )
}

/// The text of the request, a button for each token.
fn text(trace: &Trace, strip: &TextStrip) -> String {
    let mut out = String::new();
    for (place, token) in strip.tokens.iter().enumerate() {
        let word = visible(trace.word(token.id), 40);
        let surprise = token
            .event
            .and_then(|i| trace.events.token.logprob[i])
            .map_or(0.0, |p| -p / std::f32::consts::LN_2);
        // 10 bits are one token of a thousand.
        let tint = (surprise / 10.0 * 100.0).clamp(0.0, 100.0) as u32;
        let (class, style) = match token.prompt {
            true => ("q", String::new()),
            false => ("r", format!(r#" style="--s:{tint}""#)),
        };
        let special = if trace.special.contains(&token.id) { " sp" } else { "" };
        let shown = escape(&word.replace('·', " "));
        let _ = write!(
            out,
            r#"<button role="option" tabindex="-1" class="{class}{special}" data-t="{place}"{style}><bdi>{shown}</bdi></button>"#
        );
    }
    out
}

fn sub(trace: &Trace) -> String {
    let m = &trace.run.model;
    let text = [
        m.name.clone(),
        m.architecture.clone(),
        format!("{} numbers as {}", number(m.params as f64), m.r#type),
        format!("{} threads, {}", m.threads, m.isa),
        trace.run.cpu.clone(),
        format!("lamina {}", trace.run.version),
    ];
    escape(&text.join(" · "))
}

/// What a reader has to know before he believes a time.
fn busy(trace: &Trace) -> String {
    let starved = trace.run.starved_ns.filter(|ns| *ns as f64 > 0.1 * trace.run.ns as f64);
    let mut notes = vec![];
    if let Some(ns) = starved {
        notes.push(format!(
            "This machine was busy: threads of this run waited {} for a core while it took {}. Times are longer than they would be.",
            time(ns as f64),
            time(trace.run.ns as f64)
        ));
    }
    if trace.run.dropped > 0 {
        notes.push(format!(
            "{} events were dropped, because the recording was full: sums by operator hold all.",
            number(trace.run.dropped as f64)
        ));
    }
    notes.iter().map(|n| note(n)).collect()
}

fn note(text: &str) -> String {
    format!(r#"<p class="note" role="note">{}</p>"#, escape(text))
}

/// The figures on top.
fn keys(trace: &Trace, strip: &TextStrip) -> String {
    let prompt = strip.prompt_len();
    let decode: Vec<u64> = strip.steps.iter().filter(|s| !s.prompt).map(|s| s.ns).collect();
    let first: u64 = strip.steps.iter().filter(|s| s.prompt).map(|s| s.ns).sum();
    let all: u64 = decode.iter().sum();
    let speed = (all > 0).then(|| decode.len() as f64 * 1e9 / all as f64);
    let surprise: Vec<f32> =
        strip.tokens.iter().filter_map(|t| trace.events.token.logprob[t.event?]).collect();
    let bits =
        -f64::from(surprise.iter().sum::<f32>()) / surprise.len().max(1) as f64 / std::f64::consts::LN_2;
    let mut keys = vec![
        (format!("{prompt} + {}", strip.tokens.len() - prompt), "tokens in, tokens out"),
        (time(first as f64), "for the prompt"),
    ];
    keys.extend(speed.map(|s| (format!("{}/s", number(s)), "tokens after it")));
    keys.push((crate::format::bytes(trace.run.model.bytes_per_token as f64), "weights read for a token"));
    if !surprise.is_empty() {
        keys.push((format!("{} bits", number(bits)), "surprise of a token, on average"));
    }
    keys.iter()
        .map(|(value, what)| format!("<div><b>{}</b><span>{}</span></div>", escape(value), escape(what)))
        .collect()
}
