//! Completions as llama-server writes them.

use super::settings;
use crate::{
    api::shared::{logprob, piece, times, timings},
    dialect::Dialect,
    error::ApiError,
    run::{
        AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, Frames, Render, TokenUsage, WholeAnswer,
        Wishes,
    },
};
use lamina::{Timings, Tokenizer};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// What an answer tells beside its text.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Its tokens.
    pub tokens: bool,
    /// Timings with every piece.
    pub timings: bool,
    /// Paths of the fields that it has; empty: all.
    pub fields: Vec<String>,
}

/// What probabilities are called.
#[derive(Debug, Clone, Copy)]
struct ProbabilityWords {
    one: &'static str,
    list: &'static str,
    value: fn(f32) -> f64,
}

/// The model's own, and those that the token was drawn by.
const WORDS: [ProbabilityWords; 2] = [
    ProbabilityWords { one: "logprob", list: "top_logprobs", value: logprob },
    ProbabilityWords { one: "prob", list: "top_probs", value: |log| f64::from(log.exp()) },
];

/// Writes completions.
pub struct NativeRenderer {
    model: String,
    tokenizer: Option<Tokenizer>,
    prompts: Vec<Vec<u32>>,
    n: usize,
    settings: Value,
    probabilities: Option<ProbabilityWords>,
    told: Told,
    begun: Instant,
    /// Of each answer: tokens so far, whether it has a line break, when its first token came.
    grown: Vec<(usize, bool, Option<Instant>)>,
}

impl NativeRenderer {
    /// A renderer of one request's answers.
    pub fn new(
        model: &str,
        tokenizer: Option<Tokenizer>,
        prompts: &[Vec<u32>],
        wishes: &Wishes,
        told: Told,
        stream: bool,
    ) -> NativeRenderer {
        let n = wishes.generate.n;
        let drawn = wishes.generate.sampling.logprobs.drawn > 0;
        NativeRenderer {
            model: model.to_owned(),
            tokenizer,
            prompts: prompts.to_vec(),
            n,
            settings: settings::of_request(wishes, stream),
            probabilities: wishes.generate.sampling.logprobs.count.map(|_| WORDS[usize::from(drawn)]),
            told,
            begun: Instant::now(),
            grown: vec![(0, false, None); prompts.len() * n],
        }
    }

    fn told(&self, tokens: &[ChosenToken], words: ProbabilityWords) -> Value {
        let entry = |id: u32, log: f32| {
            let (text, bytes) = piece(self.tokenizer.as_ref(), id);
            json!({ "id": id, "token": text, "bytes": bytes, words.one: (words.value)(log) })
        };
        let told = tokens.iter().filter_map(|token| {
            let mut value = entry(token.id, token.logprob?);
            value[words.list] = token.top.iter().map(|&(id, log)| entry(id, log)).collect();
            Some(value)
        });
        told.collect()
    }

    /// What stands in a body of an answer that has ended.
    fn ended(&self, choice: usize, end: &ChoiceEnd, has_new_line: bool) -> Map<String, Value> {
        let (kind, word) = match &end.why {
            Ended::Token(_) | Ended::ToolCalls => ("eos", ""),
            Ended::Text(word) => ("word", word.as_str()),
            Ended::MaxTokens | Ended::Context | Ended::Deadline => ("limit", ""),
            Ended::Cancelled => ("none", ""),
        };
        let prompt = &self.prompts[choice / self.n];
        let text = self.tokenizer.as_ref().and_then(|t| t.decode_with(prompt, lamina::Markers::Show).ok());
        let value = json!({
            "id_slot": -1,
            "stop": true,
            "model": self.model,
            "tokens_predicted": end.usage.completion,
            "tokens_evaluated": end.usage.prompt,
            "tokens_cached": end.usage.cached,
            "generation_settings": self.settings,
            "prompt": text,
            "has_new_line": has_new_line,
            "truncated": end.why == Ended::Context,
            "stop_type": kind,
            "stopping_word": word,
            "timings": timings(end),
        });
        object(value)
    }

    fn selected(&self, body: Map<String, Value>) -> Value {
        if self.told.fields.is_empty() {
            return Value::Object(body);
        }
        let body = Value::Object(body);
        let field = |path: &String| Some((path.clone(), body.pointer(&format!("/{path}"))?.clone()));
        Value::Object(self.told.fields.iter().filter_map(field).collect())
    }

    /// How much of a prompt is computed.
    fn progress(&self, choice: usize, total: usize, cached: usize, computed: usize) -> Map<String, Value> {
        let told = json!({
            "total": total, "cache": cached, "processed": computed, "time_ms": self.begun.elapsed().as_millis() as u64,
        });
        object(
            json!({ "index": choice, "content": "", "tokens": [], "stop": false, "prompt_progress": told }),
        )
    }

    /// Times of an answer that still grows.
    fn growing(&self, choice: usize) -> Value {
        let (tokens, _, since) = self.grown[choice];
        let prompt_tokens = self.prompts[choice / self.n].len();
        let decode_seconds = since.map_or(0.0, |s| s.elapsed().as_secs_f64());
        times(&Timings { prompt_tokens, tokens, decode_seconds, ..Timings::default() })
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

impl Render for NativeRenderer {
    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        let i = delta.choice;
        let text = match &delta.part {
            DeltaPart::Text(text) | DeltaPart::Reasoning(text) => text.as_str(),
            DeltaPart::End(_) => "",
            DeltaPart::Progress { total, cached, computed } => {
                return out.data(&self.selected(self.progress(i, *total, *cached, *computed)));
            }
            _ => return,
        };
        let grown = &mut self.grown[i];
        grown.0 += delta.tokens.len();
        grown.1 |= text.contains('\n');
        if !delta.tokens.is_empty() {
            grown.2.get_or_insert_with(Instant::now);
        }
        let ids: Vec<u32> = delta.tokens.iter().map(|t| t.id).collect();
        let mut body = object(json!({ "index": i, "content": text, "tokens": ids, "stop": false }));
        match &delta.part {
            DeltaPart::End(end) => body.append(&mut self.ended(i, end, self.grown[i].1)),
            _ => {
                body.insert("id_slot".into(), json!(-1));
                body.insert("tokens_predicted".into(), json!(self.grown[i].0));
                body.insert("tokens_evaluated".into(), json!(self.prompts[i / self.n].len()));
                if self.told.timings {
                    body.insert("timings".into(), self.growing(i));
                }
            }
        }
        if let Some(words) = self.probabilities.filter(|_| !delta.tokens.is_empty()) {
            body.insert("completion_probabilities".into(), self.told(&delta.tokens, words));
        }
        out.data(&self.selected(body));
    }

    fn end(&mut self, _usage: &TokenUsage, _out: &mut Frames) {}

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body(Dialect::Native, ""));
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let bodies = answer.choices.iter().enumerate().map(|(i, choice)| {
            let ids: Vec<u32> = choice.tokens.iter().map(|t| t.id).collect();
            let told = if self.told.tokens { ids } else { vec![] };
            let mut body = object(json!({ "index": i, "content": choice.text, "tokens": told }));
            if let Some(end) = &choice.end {
                body.append(&mut self.ended(i, end, choice.text.contains('\n')));
            }
            if let Some(words) = self.probabilities {
                body.insert("completion_probabilities".into(), self.told(&choice.tokens, words));
            }
            self.selected(body)
        });
        let mut bodies: Vec<Value> = bodies.collect();
        if bodies.len() == 1 { bodies.remove(0) } else { Value::Array(bodies) }
    }
}
