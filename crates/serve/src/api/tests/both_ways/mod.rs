//! Every dialect writes an answer as a stream and as a whole. One table of answers is written both ways in each of them,
//! and what a reader has at the end must be the same.

mod cases;
mod readers;

use super::{
    anthropic::MessageRenderer,
    native::{NativeRenderer, Told},
    ollama::{AnswerForm, AnswerRenderer, ReplyHead},
    openai::{AnswerHead, ChatRenderer, CompletionRenderer, Echoing, ResponseRenderer, StreamUsage},
};
use crate::{
    body::{Body, FieldTable},
    error::ApiError,
    run::{AnswerDelta, DeltaPart, Frames, MediaTokens, Render, Started, WholeAnswer, Wishes},
};
use cases::{AnswerCase, cases, prompt, tokenizer};
use serde_json::Value;

/// A dialect: its renderer, and what its reader has of either way.
struct Reader {
    name: &'static str,
    /// Its format has several answers, and calls and reasoning.
    several: bool,
    chat: bool,
    renderer: fn(&AnswerCase, &Wishes) -> Box<dyn Render>,
    /// What the pieces of a stream are together.
    joined: fn(&str) -> Value,
    /// The same of a whole body.
    seen: fn(&Value) -> Value,
}

const READERS: &[Reader] = &[
    Reader {
        name: "chat completions",
        several: true,
        chat: true,
        renderer: |_, wishes| {
            Box::new(ChatRenderer::new(head(), Some(tokenizer()), wishes, StreamUsage::AtEnd))
        },
        joined: readers::chat,
        seen: readers::chat_seen,
    },
    Reader {
        name: "completions",
        several: true,
        chat: false,
        renderer: |case, wishes| Box::new(completion(case, wishes, false)),
        joined: readers::completion,
        seen: readers::completion_seen,
    },
    Reader {
        name: "completions with echo",
        several: true,
        chat: false,
        renderer: |case, wishes| Box::new(completion(case, wishes, true)),
        joined: readers::completion,
        seen: readers::completion_seen,
    },
    Reader {
        name: "responses",
        several: false,
        chat: true,
        renderer: |_, wishes| {
            let mut echoed = Echoing::new(&Body::parse(b"", &NOTHING, false).expect("an object"));
            echoed.settle(wishes, "tiny");
            let logprobs = wishes.generate.sampling.logprobs.count.is_some();
            Box::new(ResponseRenderer::new(echoed, Some(tokenizer()), logprobs, None))
        },
        joined: readers::response,
        seen: readers::response_seen,
    },
    Reader {
        name: "messages",
        several: false,
        chat: true,
        renderer: |_, _| Box::new(MessageRenderer::new("tiny", &"r".into())),
        joined: readers::message,
        seen: readers::message_seen,
    },
    Reader {
        name: "generate",
        several: false,
        chat: false,
        renderer: |_, wishes| Box::new(ollama(AnswerForm::Generate, wishes)),
        joined: readers::lines,
        seen: readers::line_seen,
    },
    Reader {
        name: "chat of Ollama",
        several: false,
        chat: true,
        renderer: |_, wishes| Box::new(ollama(AnswerForm::Chat, wishes)),
        joined: readers::lines,
        seen: readers::line_seen,
    },
    Reader {
        name: "completion of llama-server",
        several: true,
        chat: false,
        renderer: |case, wishes| {
            let told = Told { tokens: true, ..Told::default() };
            let prompts = vec![prompt(); case.prompts];
            Box::new(NativeRenderer::new("tiny", Some(tokenizer()), &prompts, wishes, told, false))
        },
        joined: readers::native,
        seen: readers::native_seen,
    },
];

static NOTHING: FieldTable = FieldTable { name: "test", sampling: false, fields: &[], also: &[] };

fn head() -> AnswerHead {
    AnswerHead::new("id-", "tiny", "f")
}

fn completion(case: &AnswerCase, wishes: &Wishes, echo: bool) -> CompletionRenderer {
    let logprobs = wishes.generate.sampling.logprobs.count.is_some();
    let renderer = CompletionRenderer::new(head(), Some(tokenizer()), wishes, StreamUsage::AtEnd);
    renderer.logprobs(logprobs).best(wishes.generate.n).prompts(&vec![prompt(); case.prompts], echo)
}

fn ollama(form: AnswerForm, wishes: &Wishes) -> AnswerRenderer {
    let tokenizer = wishes.generate.sampling.logprobs.count.map(|_| tokenizer());
    AnswerRenderer::new(form, ReplyHead::new("tiny"), tokenizer)
}

impl AnswerCase {
    fn started(&self) -> Started {
        let prompt_tokens = vec![prompt().len(); self.prompts];
        Started {
            prompt_tokens,
            media_tokens: MediaTokens { image: 3 * self.prompts, audio: 2 * self.prompts },
            choices: self.choices(),
            model: "tiny".into(),
        }
    }

    fn wishes(&self, logprobs: bool) -> Wishes {
        let mut wishes = Wishes { token_ids: true, ..Wishes::default() };
        wishes.generate.n = self.n;
        wishes.generate.sampling.logprobs.count = logprobs.then_some(2);
        wishes
    }

    /// What a renderer streams of it.
    fn streamed(&self, renderer: &mut dyn Render) -> String {
        let mut out = Frames::default();
        renderer.begin(&self.started(), &mut out);
        self.deltas.iter().for_each(|delta| renderer.delta(delta, &mut out));
        renderer.end(&self.usage(), &mut out);
        String::from_utf8(out.take()).expect("text")
    }

    /// What a renderer makes of all of it.
    fn whole(&self, renderer: &mut dyn Render) -> Value {
        let mut answer = WholeAnswer::new(self.choices());
        self.deltas.iter().cloned().for_each(|delta| answer.push(delta));
        answer.usage = self.usage();
        renderer.whole(&answer)
    }
}

/// True where a dialect has words for all that an answer consists of.
fn fits(reader: &Reader, case: &AnswerCase) -> bool {
    let plain =
        |delta: &AnswerDelta| !matches!(delta.part, DeltaPart::Reasoning(_) | DeltaPart::ToolStart { .. });
    (reader.several || case.choices() == 1) && (reader.chat || case.deltas.iter().all(plain))
}

#[test]
fn streams_and_bodies_say_the_same() {
    let mut compared = 0;
    for case in cases() {
        for reader in READERS.iter().filter(|reader| fits(reader, &case)) {
            for logprobs in [false, true] {
                let renderer = || (reader.renderer)(&case, &case.wishes(logprobs));
                let stream = case.streamed(&mut *renderer());
                let (joined, seen) = ((reader.joined)(&stream), (reader.seen)(&case.whole(&mut *renderer())));
                assert_eq!(joined, seen, "{}, {}, logprobs {logprobs}:\n{stream}", reader.name, case.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// A stream that has begun says the same of an error as a response that has not.
#[test]
fn errors_say_the_same() {
    let error = ApiError::fault("the machine is on fire");
    for case in cases() {
        for reader in READERS.iter().filter(|reader| fits(reader, &case)) {
            let mut renderer = (reader.renderer)(&case, &case.wishes(false));
            let mut out = Frames::default();
            renderer.begin(&case.started(), &mut out);
            let begun = case.deltas.iter().filter(|d| !matches!(d.part, DeltaPart::End(_)));
            begun.for_each(|delta| renderer.delta(delta, &mut out));
            out.take();
            renderer.error(&error, &mut out);
            let text = String::from_utf8(out.take()).expect("text");
            assert!(text.contains("\"the machine is on fire\""), "{}, {}: {text}", reader.name, case.name);
            assert_eq!(text.contains("[DONE]"), reader.name.contains("completions"), "{}", reader.name);
        }
    }
}
