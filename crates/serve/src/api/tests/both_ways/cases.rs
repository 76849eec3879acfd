//! Answers of every kind, as they come from the engine.

use crate::run::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, MediaTokens, TokenUsage};
use lamina::{Markers, Scored, Special, StreamDecoder, Timings, Tokenizer};
use std::sync::LazyLock;

/// An answer, or several.
pub struct AnswerCase {
    /// What it shows.
    pub name: &'static str,
    /// Prompts, and answers to each.
    pub prompts: usize,
    /// See `prompts`.
    pub n: usize,
    /// Its pieces.
    pub deltas: Vec<AnswerDelta>,
}

impl AnswerCase {
    /// Answers in all.
    pub fn choices(&self) -> usize {
        self.prompts * self.n
    }

    /// Its tokens.
    pub fn usage(&self) -> TokenUsage {
        let completion = self.deltas.iter().map(|d| d.tokens.len()).sum();
        TokenUsage {
            prompt: prompt().len() * self.prompts,
            cached: 1,
            completion,
            reasoning: 0,
            media: MediaTokens { image: 3 * self.prompts, audio: 2 * self.prompts },
        }
    }
}

/// The packaged one.
pub fn tokenizer() -> Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> =
        LazyLock::new(|| lamina::tokenizer(None).expect("the packaged tokenizer"));
    TOKENIZER.clone()
}

/// A prompt that begins with a token without text.
pub fn prompt() -> Vec<u32> {
    let prompt = tokenizer().encode("Once upon a caf\u{e9}", Special::ADD).expect("tokens");
    assert!(tokenizer().is_special(prompt[0]), "{prompt:?}");
    prompt
}

/// What one answer consists of.
enum Said {
    Reasoning(&'static str),
    Text(&'static str),
    Call(&'static str, &'static str),
    /// Tokens without text at its end.
    Silence(usize),
}
use Said::{Call, Reasoning, Silence, Text};

fn chosen(id: u32) -> ChosenToken {
    ChosenToken { id, logprob: Some(-0.5), top: vec![(id, -0.5), (id + 1, -1.5)] }
}

/// Text token by token; the tokens of a character that takes several come with the last of them.
fn pieces(text: &str) -> Vec<(String, Vec<ChosenToken>)> {
    let tokenizer = tokenizer();
    let mut decoder = StreamDecoder::after(&tokenizer, Markers::Hide, &prompt());
    let (mut pieces, mut held) = (vec![], vec![]);
    for id in tokenizer.encode(text, Special::NONE).expect("tokens") {
        held.push(chosen(id));
        let piece = decoder.push(id).expect("a token");
        if !piece.is_empty() {
            pieces.push((piece, std::mem::take(&mut held)));
        }
    }
    pieces
}

/// One answer's pieces.
fn answer(choice: usize, said: &[Said], why: Ended) -> Vec<AnswerDelta> {
    let (mut deltas, mut calls, mut last) = (vec![], 0, vec![]);
    let mut push = |part, tokens| deltas.push(AnswerDelta { choice, part, tokens });
    for said in said {
        match said {
            Reasoning(text) => {
                pieces(text).into_iter().for_each(|(t, ids)| push(DeltaPart::Reasoning(t), ids))
            }
            Text(text) => pieces(text).into_iter().for_each(|(t, ids)| push(DeltaPart::Text(t), ids)),
            Call(name, arguments) => {
                let (call, id) = (calls, format!("call_{choice}{calls}"));
                calls += 1;
                push(DeltaPart::ToolStart { call, id, name: (*name).to_owned() }, vec![chosen(301)]);
                for (json, ids) in pieces(arguments) {
                    push(DeltaPart::ToolArguments { call, json }, ids);
                }
            }
            Silence(n) => last = (0..*n as u32).map(|i| chosen(310 + i)).collect(),
        }
    }
    let usage = TokenUsage {
        prompt: prompt().len(),
        cached: 1,
        completion: 0,
        reasoning: 0,
        media: MediaTokens { image: 3, audio: 2 },
    };
    let tokens = deltas.iter().map(|d: &AnswerDelta| d.tokens.len()).sum::<usize>() + last.len();
    let usage = TokenUsage { completion: tokens, ..usage };
    let timings = Timings { tokens, decode_seconds: 0.5, ..Timings::default() };
    let end = ChoiceEnd { why, usage, timings, encode_seconds: 0.25 };
    deltas.push(AnswerDelta { choice, part: DeltaPart::End(Box::new(end)), tokens: last });
    deltas
}

/// How the prompt was read, before an answer's first token.
fn read(choice: usize) -> Vec<AnswerDelta> {
    let scored = |&id: &u32| Scored { id, logprob: -0.25, top: vec![(id, -0.25)] };
    let prompt = prompt();
    let parts = [
        DeltaPart::Progress { total: prompt.len(), cached: 1, computed: prompt.len() },
        DeltaPart::Prompt { start: 1, scored: prompt[1..].iter().map(scored).collect() },
    ];
    parts.into_iter().map(|part| AnswerDelta { choice, part, tokens: vec![] }).collect()
}

/// Answers whose pieces come in turn.
fn interleaved(mut answers: Vec<std::vec::IntoIter<AnswerDelta>>) -> Vec<AnswerDelta> {
    let mut all = vec![];
    while answers.iter().any(|a| a.len() > 0) {
        all.extend(answers.iter_mut().filter_map(Iterator::next));
    }
    all
}

/// The answers.
pub fn cases() -> Vec<AnswerCase> {
    let args = "{\"zone\": \"UTC\"}";
    let token = || Ended::Token(2);
    let one = |name, said: &[Said], why| AnswerCase { name, prompts: 1, n: 1, deltas: answer(0, said, why) };
    let mut cases = vec![
        one("text", &[Text("There was a caf\u{e9}, and tea.\n")], token()),
        one("characters of several tokens", &[Text("\u{1f600}\u{4e2d} ok")], token()),
        one("a tool", &[Call("now", args)], Ended::ToolCalls),
        one("a tool, and tokens without text", &[Call("now", args), Silence(2)], Ended::ToolCalls),
        one("a tool without arguments", &[Call("now", "{}")], Ended::ToolCalls),
        one("several tools", &[Call("now", args), Call("now", "{}"), Call("who", args)], Ended::ToolCalls),
        one("text and a tool", &[Text("Let me see."), Call("now", args)], Ended::ToolCalls),
        one("a tool and text", &[Call("now", args), Text("So.")], Ended::ToolCalls),
        one("text on both sides", &[Text("a b"), Call("now", args), Text("c d")], Ended::ToolCalls),
        one("reasoning and text", &[Reasoning("Hm, so"), Text("It is noon.")], token()),
        one("reasoning and a tool", &[Reasoning("Hm, so"), Call("now", args)], Ended::ToolCalls),
        one("reasoning twice", &[Reasoning("a b"), Text("c d"), Reasoning("e f"), Text("g h")], token()),
        one("reasoning alone", &[Reasoning("Hm, so")], token()),
        one("nothing", &[], token()),
        one("tokens without text", &[Silence(3)], token()),
        one("text, and tokens without it", &[Text("Once"), Silence(2)], token()),
        one("a stop text", &[Text("There was")], Ended::Text("END".into())),
        one("length", &[Text("There was")], Ended::MaxTokens),
        one("length, tokens without text", &[Text("There was"), Silence(1)], Ended::Context),
        one("length in a call", &[Text("So:"), Call("now", "{\"zone\": \"U")], Ended::MaxTokens),
        one("length in the reasoning", &[Reasoning("Hm, so")], Ended::MaxTokens),
        one("time is over", &[Text("There was")], Ended::Deadline),
    ];
    let two = |c| answer(c, &[Text(["There was", "A cat sat. "][c % 2]), Silence(c)], token()).into_iter();
    cases.push(AnswerCase {
        name: "two answers",
        prompts: 1,
        n: 2,
        deltas: interleaved(vec![two(0), two(1)]),
    });
    let read_first = |c| read(c).into_iter().chain(two(c)).collect::<Vec<_>>().into_iter();
    let several = vec![read_first(0), two(1), read_first(2), two(3)];
    cases.push(AnswerCase { name: "two to each of two prompts", prompts: 2, n: 2, deltas: ordered(several) });
    let deltas = [read(0), answer(0, &[Text("There was")], token())].concat();
    cases.push(AnswerCase { name: "the prompt's logprobs", prompts: 1, n: 1, deltas });
    let tools = |c| answer(c, &[Reasoning("Hm"), Text("Yes "), Call("now", args)], Ended::ToolCalls);
    let deltas = interleaved(vec![tools(0).into_iter(), tools(1).into_iter()]);
    cases.push(AnswerCase { name: "two answers with tools", prompts: 1, n: 2, deltas });
    cases
}

/// Answers one after the other: prompts are read before any of their answers.
fn ordered(answers: Vec<std::vec::IntoIter<AnswerDelta>>) -> Vec<AnswerDelta> {
    answers.into_iter().flatten().collect()
}
