//! Special tokens: which are added around a text, and which are found inside it.

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use crate::error::TokenizeError;
use crate::vocab::{TokenKind, Vocab};

/// Two separate choices about special tokens when a text is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// Add the tokens that the model expects around a text (BOS, EOS, CLS, SEP), as its configuration says.
    pub add: bool,
    /// Read special tokens written in the text (`<|im_start|>`) as such. Never do so with text of a stranger:
    /// otherwise they stay plain text and cannot forge a turn.
    pub parse: bool,
}

impl Special {
    /// Nothing added, nothing parsed: the bare text.
    pub const NONE: Special = Special { add: false, parse: false };
    /// BOS and the like added, the text itself plain: a prompt.
    pub const ADD: Special = Special { add: true, parse: false };
    /// Special tokens in the text are read, none are added: a rendered chat template.
    pub const PARSE: Special = Special { add: false, parse: true };
    /// Both.
    pub const ADD_AND_PARSE: Special = Special { add: true, parse: true };
}

/// Whether control tokens appear in decoded text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markers {
    /// They add nothing: the text of an answer.
    #[default]
    Hide,
    /// They are written as the vocabulary writes them.
    Show,
}

/// The ids of tokens with a role, where the model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SpecialIds {
    /// Beginning of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message that expects a tool's answer.
    pub eom: Option<u32>,
    pub unknown: Option<u32>,
    pub separator: Option<u32>,
    pub padding: Option<u32>,
    pub mask: Option<u32>,
    pub infill: InfillIds,
}

/// The ids of tokens around a gap, where the model names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfillIds {
    /// Before the text that precedes the gap.
    pub prefix: Option<u32>,
    /// Before the text that follows it.
    pub suffix: Option<u32>,
    /// Where the text of the gap begins.
    pub middle: Option<u32>,
    /// Before each file.
    pub file: Option<u32>,
}

/// White space beside a special token that belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strip {
    pub left: bool,
    pub right: bool,
}

/// A token that is looked for in texts.
#[derive(Clone, Debug)]
pub(crate) struct SpecialTarget {
    pub id: u32,
    pub text: String,
    pub strip: Strip,
    /// Found even in plain text (a user-defined token), not only when special tokens are parsed.
    pub always: bool,
}

/// A stretch of text, or a special token found in it.
#[derive(Debug, PartialEq, Eq)]
pub enum SpecialFragment<'t> {
    /// What stands between special tokens; never empty.
    Text(&'t str),
    /// A special token's id.
    Token(u32),
}

/// Finds special tokens: at the leftmost place, the longest.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    always: Option<Automaton>,
    all: Option<Automaton>,
}

#[derive(Debug)]
struct Automaton {
    matcher: AhoCorasick,
    /// Id, white space that goes with it, and whether it is found in plain text too.
    targets: Vec<(u32, Strip, bool)>,
}

impl Finder {
    pub fn new(targets: &[SpecialTarget]) -> Result<Finder, TokenizeError> {
        Ok(Finder {
            always: Automaton::new(targets.iter().filter(|target| target.always))?,
            all: Automaton::new(targets.iter())?,
        })
    }

    /// Cuts `text` at the special tokens in it; text fragments are never empty.
    pub fn fragments<'t>(&self, text: &'t str, parse: bool) -> Vec<SpecialFragment<'t>> {
        let automaton = if parse { &self.all } else { &self.always };
        match automaton {
            Some(automaton) => automaton.fragments(text),
            None if text.is_empty() => Vec::new(),
            None => vec![SpecialFragment::Text(text)],
        }
    }
}

impl Finder {
    /// `text` with `mark` inside every special token that plain text does not have, so that none is found in it any
    /// more; None if it has none. The mark follows the first character: what overlaps a token is broken as well.
    pub fn broken(&self, text: &str, mark: char) -> Option<String> {
        let automaton = self.all.as_ref()?;
        let (mut out, mut done, mut at) = (String::new(), 0, 0);
        while let Some(found) = automaton.matcher.find(Input::new(text).range(at..)) {
            let (_, _, always) = automaton.targets[found.pattern().as_usize()];
            at = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
            if !always {
                out.push_str(&text[done..at]);
                out.push(mark);
                done = at;
            }
        }
        (done > 0).then(|| out + &text[done..])
    }
}

impl Automaton {
    fn new<'a>(targets: impl Iterator<Item = &'a SpecialTarget>) -> Result<Option<Automaton>, TokenizeError> {
        let targets: Vec<&SpecialTarget> = targets.filter(|target| !target.text.is_empty()).collect();
        if targets.is_empty() {
            return Ok(None);
        }
        // The table of a long token that overlaps itself takes time by the square of its length; a list of links
        // does not, and is nearly as fast to search.
        let long = targets.iter().any(|target| target.text.len() > 256);
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(long.then_some(AhoCorasickKind::NoncontiguousNFA))
            .build(targets.iter().map(|target| &target.text))
            .map_err(|e| TokenizeError::malformed("special tokens", e.to_string()))?;
        Ok(Some(Automaton { matcher, targets: targets.iter().map(|t| (t.id, t.strip, t.always)).collect() }))
    }

    fn fragments<'t>(&self, text: &'t str) -> Vec<SpecialFragment<'t>> {
        let mut out = Vec::new();
        let mut done = 0;
        for found in self.matcher.find_iter(text) {
            let (id, strip, _) = self.targets[found.pattern().as_usize()];
            // White space taken by the token before is gone; the token itself never is.
            let before = &text[done.min(found.start())..found.start()];
            let before = if strip.left { before.trim_end() } else { before };
            if !before.is_empty() {
                out.push(SpecialFragment::Text(before));
            }
            out.push(SpecialFragment::Token(id));
            let after = &text[found.end()..];
            let taken = if strip.right { after.len() - after.trim_start().len() } else { 0 };
            done = found.end() + taken;
        }
        if done < text.len() {
            out.push(SpecialFragment::Text(&text[done..]));
        }
        out
    }
}

/// Token texts that end a generation wherever they are structure rather than text.
const END_TEXTS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<eos>",
    "</s>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
];

/// All ids that end a generation: those with the role, and those with a well-known text.
pub(crate) fn end_ids(vocab: &Vocab, ids: &SpecialIds) -> Vec<u32> {
    let is_marker = |id: u32, text: &str| match vocab.kind(id) {
        Some(TokenKind::Control) => true,
        // Converters often list added tokens as user-defined; `</s>` and `<eos>` may be markup of a text there.
        Some(TokenKind::UserDefined) => !matches!(text, "</s>" | "<eos>"),
        _ => false,
    };
    let by_text = END_TEXTS.iter().filter_map(|text| vocab.id(text).filter(|&id| is_marker(id, text)));
    let mut ends: Vec<u32> = [ids.eos, ids.eot, ids.eom].into_iter().flatten().chain(by_text).collect();
    let has = |text: &str| vocab.id(text).is_some_and(|id| ends.contains(&id));
    // Harmony and Solar close every message with <|end|>, also those before the answer.
    let messages = (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
    if messages && let Some(end) = vocab.id("<|end|>").filter(|&end| ids.eos != Some(end)) {
        ends.retain(|&id| id != end);
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder() -> Finder {
        let target = |id, text: &str, always, left, right| SpecialTarget {
            id,
            text: text.into(),
            always,
            strip: Strip { left, right },
        };
        Finder::new(&[
            target(1, "<s>", false, false, false),
            target(2, "<s>x", false, false, false),
            target(3, "  ", true, false, false),
            target(4, "<user>", false, false, true),
            target(5, "<mask>", false, true, false),
        ])
        .unwrap()
    }

    #[test]
    fn control_tokens_are_text_unless_parsed() {
        use SpecialFragment::{Text, Token};
        assert_eq!(finder().fragments("a<s>  b", false), [Text("a<s>"), Token(3), Text("b")]);
        assert_eq!(finder().fragments("a<s>xb<s>", true), [Text("a"), Token(2), Text("b"), Token(1)]);
        assert!(finder().fragments("", true).is_empty());
    }

    #[test]
    fn broken_tokens_are_found_no_more() {
        let broken = |text: &str| finder().broken(text, '|');
        assert_eq!(broken("a<s>b<s>x").as_deref(), Some("a<|s>b<|s>x"));
        assert_eq!(broken("a  b"), None);
        assert!(finder().fragments(&broken("<s><s>x<mask>").unwrap(), true).len() == 1);
    }

    /// The table of such a token takes time by the square of its length.
    #[test]
    fn a_long_token_that_overlaps_itself_is_made_ready_at_once() {
        let begin = std::time::Instant::now();
        let text = "ab".repeat(100_000);
        let target = SpecialTarget { id: 7, text: text.clone(), strip: Strip::default(), always: false };
        let finder = Finder::new(&[target]).unwrap();
        assert_eq!(
            finder.fragments(&format!("ab{text}"), true),
            [SpecialFragment::Token(7), SpecialFragment::Text("ab")]
        );
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
    }

    #[test]
    fn white_space_beside_a_stripping_token_goes_with_it() {
        use SpecialFragment::{Text, Token};
        assert_eq!(finder().fragments("<user>\n\nhi \n<mask>", true), [Token(4), Text("hi"), Token(5)]);
        assert_eq!(finder().fragments("<user> <mask>", true), [Token(4), Token(5)]);
    }
}
