//! Random texts: no panic, every cut gives the same, no word is lost.

use lamina_chat::{ChatFormat, Parser};
use proptest::prelude::*;

use super::cuts::joined;
use super::formats::answer;
use super::{conversations, options, tools_of};

/// Pieces that formats are made of, whole and broken.
const PIECES: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    ";",
    "\n",
    " ",
    "(",
    ")",
    "=",
    "'",
    "\"name\"",
    "\"arguments\"",
    "\"parameters\"",
    "{\"name\": \"f\", \"arguments\": {",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<think>",
    "</think>",
    "<function=",
    "<parameter=",
    "</parameter>",
    "</function>",
    "f",
    "true",
    "<|channel|>",
    "<|message|>",
    "<|start|>assistant",
    "<|end|>",
    "<|call|>",
    " to=functions.f",
    "analysis",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    ">>>",
    "all\n",
    "functools",
    "<|python_tag|>",
    ".call(",
    "<|tool_call>",
    "call:",
    "<|\"|>",
    "<tool_call|>",
    "]<]minimax[>[",
    "<invoke name=\"",
    "\">",
    "</invoke>",
    "<![CDATA[",
    "]]>",
    "\u{fc}",
    "\u{1f600}",
    "\u{ff5c}",
    "\\u00",
    "12",
    "-",
    ".5",
    "None",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|all| all.concat())
}

/// Words apart from one another, marks of the format between them.
fn words() -> impl Strategy<Value = (usize, Vec<(u32, prop::sample::Index, prop::sample::Index)>)> {
    let word = (0..100_000u32, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (0..ChatFormat::all().len(), prop::collection::vec(word, 1..12))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn random_texts_panic_nowhere_and_cut_anywhere(
        which in 0..ChatFormat::all().len(),
        text in text(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        inside in any::<bool>(),
    ) {
        let format = ChatFormat::all()[which];
        let options = lamina_chat::ParserOptions { inside, ..options(format, &[]) };
        let whole = Parser::parse(format, &options, &text);
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&places)).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        let mut parser = Parser::new(format, &options);
        let (mut deltas, mut from) = (Vec::new(), 0);
        for cut in cuts {
            deltas.extend(parser.push(&text[from..cut]));
            from = cut;
        }
        deltas.extend(parser.finish());
        prop_assert_eq!(joined(deltas), whole, "{}: {:?}", format.name, text);
    }

    /// A text of words and broken marks, without JSON: each word is somewhere in the answer.
    #[test]
    fn no_word_is_lost((which, words) in words()) {
        let format = ChatFormat::all()[which];
        let calls = vec![("f", serde_json::json!({ "k": "v" }))];
        let sample = answer(format, Some("r"), Some("c"), &calls)
            .or_else(|| answer(format, None, None, &calls))
            .unwrap_or_default();
        let marks: Vec<&str> = sample.split(['{', '}', '\n', ' ']).filter(|part| !part.contains('"')).collect();
        let mut text = String::new();
        for (word, mark, cut) in &words {
            let mark = if marks.is_empty() { "" } else { *mark.get(&marks) };
            let ends: Vec<usize> = mark.char_indices().map(|(at, _)| at).chain([mark.len()]).collect();
            text += &format!(" word{word}! {}", &mark[..*cut.get(&ends)]);
        }
        let message = Parser::parse(format, &options(format, &[]), &text);
        let shown = format!("{message:?}");
        for (word, ..) in &words {
            prop_assert!(shown.contains(&format!("word{word}")), "{}: {:?}\n{}", format.name, text, shown);
        }
    }

    /// Real answers with a character lost, doubled or changed.
    #[test]
    fn damaged_answers_panic_nowhere(
        which in 0..ChatFormat::all().len(),
        conversation in 0..8usize,
        at in any::<prop::sample::Index>(),
        change in 0..3,
    ) {
        let format = ChatFormat::all()[which];
        let (reasoning, content, calls) = conversations().swap_remove(conversation);
        let Some(text) = answer(format, reasoning, content, &calls) else { return Ok(()) };
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        match change {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            _ => chars[at] = '\u{1f600}',
        }
        let text: String = chars.into_iter().collect();
        let tools = tools_of(&calls);
        let options = options(format, &tools);
        let whole = Parser::parse(format, &options, &text);
        let mut parser = Parser::new(format, &options);
        let deltas: Vec<_> = text.chars().flat_map(|c| parser.push(&c.to_string())).collect();
        let deltas = deltas.into_iter().chain(parser.finish()).collect();
        prop_assert_eq!(joined(deltas), whole);
    }
}
