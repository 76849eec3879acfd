//! Every cut of a text gives the same.

use lamina_chat::{ChatFormat, ChatMessage, Delta, Parser};

use super::formats::answer;
use super::{conversations, options, tools_of};

/// The message of all deltas. Whoever streams sees no empty piece, and a call's name once, before its arguments.
pub fn joined(deltas: Vec<Delta>) -> ChatMessage {
    let mut message = ChatMessage::default();
    for delta in deltas {
        match &delta {
            Delta::Content(text) | Delta::Reasoning(text) => assert!(!text.is_empty()),
            Delta::ToolStart { index, id, name } => {
                assert_eq!(*index, message.tool_calls.len());
                assert!(!id.is_empty() && !name.is_empty());
            }
            Delta::ToolArguments { index, text } => {
                assert!(!text.is_empty());
                assert_eq!(index + 1, message.tool_calls.len());
            }
            Delta::ToolEnd { index, .. } => assert_eq!(index + 1, message.tool_calls.len()),
        }
        message.push(delta);
    }
    message
}

#[test]
fn every_cut_gives_the_whole() {
    for format in ChatFormat::all() {
        for (reasoning, content, calls) in conversations() {
            let Some(text) = answer(format, reasoning, content, &calls) else { continue };
            let tools = tools_of(&calls);
            let options = options(format, &tools);
            let whole = Parser::parse(format, &options, &text);
            // Cut once, at every character.
            for (at, _) in text.char_indices() {
                let mut parser = Parser::new(format, &options);
                let mut deltas = parser.push(&text[..at]);
                deltas.extend(parser.push(&text[at..]));
                deltas.extend(parser.finish());
                assert_eq!(joined(deltas), whole, "{} cut at {at}: {text}", format.name);
            }
            let mut parser = Parser::new(format, &options);
            let each = text.chars().flat_map(|c| parser.push(c.encode_utf8(&mut [0; 4]))).collect::<Vec<_>>();
            let deltas = each.into_iter().chain(parser.finish()).collect();
            assert_eq!(joined(deltas), whole, "{}: {text}", format.name);
        }
    }
}

/// An answer that ends anywhere panics nowhere, and what was told stays: it is a beginning of the whole.
#[test]
fn an_answer_that_is_cut_off_is_a_beginning_of_the_whole() {
    for format in ChatFormat::all() {
        for (reasoning, content, calls) in conversations() {
            let Some(text) = answer(format, reasoning, content, &calls) else { continue };
            let tools = tools_of(&calls);
            let options = options(format, &tools);
            let whole = Parser::parse(format, &options, &text);
            for (at, _) in text.char_indices() {
                let part = Parser::parse(format, &options, &text[..at]);
                assert!(part.tool_calls.len() <= whole.tool_calls.len(), "{} at {at}: {text}", format.name);
                for (cut, call) in part.tool_calls.iter().zip(&whole.tool_calls) {
                    assert_eq!(cut.name, call.name, "{} at {at}: {text}", format.name);
                    assert!(
                        !cut.complete || cut.arguments == call.arguments,
                        "{} at {at}: {text}",
                        format.name
                    );
                }
            }
        }
    }
}

/// Text comes at once: nothing is held back that cannot be the beginning of a mark.
#[test]
fn text_is_not_held_back() {
    for format in ChatFormat::all().iter().filter(|format| format.opening.is_empty()) {
        let mut parser = Parser::new(format, &options(format, &[]));
        assert_eq!(parser.push("Good day"), [Delta::Content("Good day".into())], "{}", format.name);
        assert_eq!(parser.push(". How are"), [Delta::Content(". How are".into())], "{}", format.name);
    }
}

/// Arguments come while they are written.
#[test]
fn arguments_come_as_they_are_written() {
    let format = ChatFormat::named("hermes").unwrap();
    let mut parser = Parser::new(format, &options(format, &[]));
    assert!(parser.push("<tool_call>\n{\"name\": \"no").is_empty());
    let deltas = parser.push("te\", \"arguments\": {\"text\": \"so");
    let arguments = |text: &str| Delta::ToolArguments { index: 0, text: text.into() };
    assert!(matches!(&deltas[..], [Delta::ToolStart { name, .. }, rest]
        if name == "note" && *rest == arguments("{\"text\": \"so")));
    assert_eq!(parser.push(" far\"}"), [arguments(" far\"}")]);
    assert_eq!(parser.push("}\n</tool_call>"), [Delta::ToolEnd { index: 0, complete: true }]);
}
