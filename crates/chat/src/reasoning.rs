//! Marks around reasoning, as templates write them, and whether an answer begins between them.

use serde_json::{Map, Value};

/// What opens and closes reasoning, and what some models put around the answer after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningMarks {
    /// Before the reasoning.
    pub open: &'static str,
    /// After it.
    pub close: &'static str,
    /// Around the answer that follows; empty texts if nothing is.
    pub answer: (&'static str, &'static str),
}

const fn marks(open: &'static str, close: &'static str) -> ReasoningMarks {
    ReasoningMarks { open, close, answer: ("", "") }
}

const fn wrapped(
    open: &'static str,
    close: &'static str,
    answer: (&'static str, &'static str),
) -> ReasoningMarks {
    ReasoningMarks { open, close, answer }
}

/// `<think>` `</think>`.
pub(crate) const THINK: ReasoningMarks = marks("<think>", "</think>");
/// As [`THINK`], the answer in `<response>` `</response>`.
pub(crate) const THINK_RESPONSE: ReasoningMarks =
    wrapped("<think>", "</think>", ("<response>", "</response>"));
/// Magistral, Ministral 3.
pub(crate) const BRACKETS: ReasoningMarks = marks("[THINK]", "[/THINK]");
/// Seed-OSS.
pub(crate) const SEED: ReasoningMarks = marks("<seed:think>", "</seed:think>");
/// MiniMax-M3.
pub(crate) const MINIMAX: ReasoningMarks = marks("<mm:think>", "</mm:think>");
/// Command-R7B, Command A.
pub(crate) const COHERE: ReasoningMarks =
    wrapped("<|START_THINKING|>", "<|END_THINKING|>", ("<|START_RESPONSE|>", "<|END_RESPONSE|>"));
/// Command A+.
pub(crate) const COHERE_TEXT: ReasoningMarks =
    wrapped("<|START_THINKING|>", "<|END_THINKING|>", ("<|START_TEXT|>", "<|END_TEXT|>"));
/// Apertus.
pub(crate) const APERTUS: ReasoningMarks = marks("<|inner_prefix|>", "<|inner_suffix|>");
/// Gemma 4.
pub(crate) const GEMMA: ReasoningMarks = marks("<|channel>thought\n", "<channel|>");
/// gpt-oss; there the headers of messages tell reasoning.
pub(crate) const HARMONY: ReasoningMarks = marks("<|channel|>analysis<|message|>", "<|end|>");
/// Solar.
pub(crate) const SOLAR: ReasoningMarks = marks("<|think|>", "<|end|>");
/// Hunyuan 3.
pub(crate) const HUNYUAN: ReasoningMarks = marks("<think:opensource>", "</think:opensource>");
/// Kimi K3.
pub(crate) const KIMI: ReasoningMarks = marks("<|open|>think<|sep|>", "<|close|>think<|sep|>");
/// Apriel 1.6: there is no opening mark, the prompt ends within.
pub(crate) const APRIEL: ReasoningMarks =
    wrapped("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", ("", "[END FINAL RESPONSE]"));
/// Muse.
pub(crate) const RECIPIENT: ReasoningMarks = marks(" to=self<|message|>", "<|eom|>");

/// Marks by what a template's source has of them, the most special first.
const BY_SOURCE: &[(&[&str], ReasoningMarks)] = &[
    (&["<seed:think>"], SEED),
    (&["<mm:think>"], MINIMAX),
    (&["[BEGIN FINAL RESPONSE]"], APRIEL),
    (&["<|START_THINKING|>", "<|START_RESPONSE|>"], COHERE),
    (&["<|START_THINKING|>", "<|START_TEXT|>"], COHERE_TEXT),
    (&["<|START_THINKING|>"], COHERE),
    (&["<|inner_prefix|>"], APERTUS),
    (&["<|channel>thought"], GEMMA),
    (&["<|channel|>analysis"], HARMONY),
    (&["<|begin|>assistant", "<|think|>"], SOLAR),
    (&["<think:opensource>"], HUNYUAN),
    (&["<think{}>", ":opensource"], HUNYUAN),
    (&["open_tag('think')"], KIMI),
    (&["to=self<|message|>"], RECIPIENT),
    (&["[THINK]"], BRACKETS),
    (&["<think></think>", "<response></response>"], THINK_RESPONSE),
    (&["<|im_start|>", "</think>", "<response>\\n"], THINK_RESPONSE),
    (&["<think>"], THINK),
    (&["</think>"], THINK),
];

impl ReasoningMarks {
    /// The marks that a template's source has, if any.
    pub fn of_template(source: &str) -> Option<ReasoningMarks> {
        let shown = |texts: &[&str]| texts.iter().all(|text| source.contains(text));
        BY_SOURCE.iter().find(|(texts, _)| shown(texts)).map(|(_, marks)| *marks)
    }

    /// Whether an answer to this prompt begins within the reasoning: the prompt's last mark is an opening one, and
    /// nothing but white space follows it.
    pub fn begins_inside(&self, prompt: &str) -> bool {
        let opens = prompt.trim_end().ends_with(self.open.trim_end());
        opens && !self.open.is_empty()
    }
}

/// Variables by which a template is told to think or not to, by its source: those that it reads, with values for yes
/// and no. A number is enforced while sampling; the template is told yes.
pub fn reasoning_variables(source: &str, on: bool) -> Map<String, Value> {
    let mut out = Map::new();
    for name in ["enable_thinking", "thinking", "reasoning"] {
        if reads(source, name) {
            out.insert(name.into(), on.into());
        }
    }
    if reads(source, "thinking_mode") {
        out.insert("thinking_mode".into(), (if on { "enabled" } else { "disabled" }).into());
    }
    if reads(source, "reasoning_effort") {
        let off = ["no_think", "none", "minimal"].into_iter().find(|word| quotes(source, word));
        match (on, off) {
            (false, Some(off)) => drop(out.insert("reasoning_effort".into(), off.into())),
            (true, _) if quotes(source, "high") => drop(out.insert("reasoning_effort".into(), "high".into())),
            _ => {}
        }
    }
    out
}

/// Whether the source has this word as the name of a variable: not as an attribute, a key or a part of a longer word.
fn reads(source: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'' | '"' | '<' | '/' | '[');
    source.match_indices(name).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let after = source[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(|c| part(c) || c == '>') && in_tag(&source[..at])
    })
}

/// Whether the text ends within a tag of the template.
fn in_tag(before: &str) -> bool {
    let open = before.rfind("{%").max(before.rfind("{{"));
    let close = before.rfind("%}").max(before.rfind("}}"));
    open > close
}

fn quotes(source: &str, word: &str) -> bool {
    [format!("'{word}'"), format!("\"{word}\"")].iter().any(|quoted| source.contains(quoted))
}
