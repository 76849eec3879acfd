//! Plain completions as OpenAI writes them.

use super::words::{AnswerHead, GrowingUsage, StreamUsage, finish_reason, usage};
use crate::{
    api::shared::{logprob, piece, timings},
    dialect::Dialect,
    error::ApiError,
    run::{
        AnswerDelta, ChosenToken, DeltaPart, Ended, Frames, Render, Started, TokenUsage, WholeAnswer,
        WholeChoice, Wishes,
    },
};
use lamina::{Scored, Tokenizer};
use serde_json::{Map, Value, json};

/// Writes plain completions.
pub struct CompletionRenderer {
    head: AnswerHead,
    tokenizer: Option<Tokenizer>,
    logprobs: bool,
    token_ids: bool,
    stream_usage: StreamUsage,
    growing: GrowingUsage,
    /// Answers that are made for each prompt, and those that are given.
    made: usize,
    given: usize,
    /// Prompts that stand before their answers.
    echo: Vec<Vec<u32>>,
    /// Characters of each answer so far.
    offsets: Vec<usize>,
    /// Answers whose prompt was told.
    echoed: Vec<bool>,
    /// Logprobs of the prompt, until the first piece of its answers.
    scored: Vec<Vec<Scored>>,
}

impl CompletionRenderer {
    /// A renderer of one request's answers.
    pub fn new(
        head: AnswerHead,
        tokenizer: Option<Tokenizer>,
        wishes: &Wishes,
        stream_usage: StreamUsage,
    ) -> CompletionRenderer {
        CompletionRenderer {
            head,
            tokenizer,
            logprobs: false,
            token_ids: wishes.token_ids,
            stream_usage,
            growing: GrowingUsage::default(),
            made: wishes.generate.n,
            given: wishes.generate.n,
            echo: vec![],
            offsets: vec![],
            echoed: vec![],
            scored: vec![],
        }
    }

    /// Whether logprobs are told.
    pub fn logprobs(self, logprobs: bool) -> Self {
        CompletionRenderer { logprobs, ..self }
    }

    /// Of all answers to a prompt, the `given` most likely ones are told.
    pub fn best(self, given: usize) -> Self {
        CompletionRenderer { given, ..self }
    }

    /// Prompts that stand before their answers.
    pub fn echo(self, echo: Vec<Vec<u32>>) -> Self {
        CompletionRenderer { echo, ..self }
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.head.object("text_completion", choices);
        match self.stream_usage {
            StreamUsage::Never => {}
            StreamUsage::AtEnd => _ = chunk.insert("usage".into(), Value::Null),
            StreamUsage::Always => _ = chunk.insert("usage".into(), self.growing.value()),
        }
        Value::Object(chunk)
    }

    /// The prompt's text that stands before answer `choice`.
    fn echo_text(&self, choice: usize) -> String {
        let prompt = self.echo.get(choice / self.made.max(1));
        let text = prompt.zip(self.tokenizer.as_ref()).and_then(|(p, t)| t.decode(p).ok());
        text.unwrap_or_default()
    }

    /// Logprobs of the prompt's tokens: the first has none, since nothing stands before it.
    fn prompt_entries(&self, choice: usize, scored: &[Scored]) -> Vec<ListedToken> {
        let prompt = self.echo.get(choice / self.made.max(1)).map_or(&[][..], Vec::as_slice);
        let told = prompt.len().saturating_sub(scored.len());
        let bare = prompt[..told].iter().map(|&id| ListedToken { id, logprob: None, top: vec![] });
        let rest =
            scored.iter().map(|s| ListedToken { id: s.id, logprob: Some(s.logprob), top: s.top.clone() });
        bare.chain(rest).collect()
    }

    /// OpenAI's four lists; `offset` is where the first token's text begins.
    fn lists(&self, entries: &[ListedToken], offset: &mut usize) -> Value {
        let text = |id| piece(self.tokenizer.as_ref(), id).0;
        let mut lists = (vec![], vec![], vec![], vec![]);
        for entry in entries {
            let token = text(entry.id);
            lists.3.push(json!(*offset));
            *offset += token.chars().count();
            lists.0.push(json!(token));
            lists.1.push(json!(entry.logprob.map(logprob)));
            let top: Map<String, Value> =
                entry.top.iter().map(|&(id, l)| (text(id), json!(logprob(l)))).collect();
            lists.2.push(if entry.logprob.is_some() { Value::Object(top) } else { Value::Null });
        }
        json!({ "tokens": lists.0, "token_logprobs": lists.1, "top_logprobs": lists.2, "text_offset": lists.3 })
    }

    fn whole_choice(&self, index: usize, made: usize, choice: &WholeChoice) -> Value {
        let echo = self.echo_text(made);
        let logprobs = self.logprobs.then(|| {
            let prompt = made / self.made * self.made;
            let mut entries =
                if self.echo.is_empty() { vec![] } else { self.prompt_entries(prompt, &choice.prompt) };
            entries.extend(choice.tokens.iter().map(ListedToken::of));
            self.lists(&entries, &mut 0)
        });
        let finish = choice.end.as_ref().map_or("stop", |e| finish_reason(&e.why));
        let mut value = json!({
            "index": index,
            "text": format!("{echo}{}", choice.text),
            "logprobs": logprobs,
            "finish_reason": finish,
        });
        if self.token_ids {
            value["token_ids"] = choice.tokens.iter().map(|t| t.id).collect();
        }
        value
    }

    /// Answers that are told, the most likely of each prompt, in the order in which they were made.
    fn chosen(&self, choices: &[WholeChoice]) -> Vec<usize> {
        let groups = (0..choices.len()).collect::<Vec<_>>();
        let best = groups.chunks(self.made.max(1)).flat_map(|group| {
            let mut group = group.to_vec();
            if self.given < self.made {
                group.sort_by(|&a, &b| likelihood(&choices[b]).total_cmp(&likelihood(&choices[a])));
                group.truncate(self.given);
            }
            group
        });
        best.collect()
    }
}

/// A token with its logprobs.
struct ListedToken {
    id: u32,
    logprob: Option<f32>,
    top: Vec<(u32, f32)>,
}

impl ListedToken {
    fn of(token: &ChosenToken) -> ListedToken {
        ListedToken { id: token.id, logprob: token.logprob, top: token.top.clone() }
    }
}

/// Mean logprob of an answer's tokens.
fn likelihood(choice: &WholeChoice) -> f64 {
    let sum: f64 = choice.tokens.iter().filter_map(|t| t.logprob).map(f64::from).sum();
    sum / choice.tokens.len().max(1) as f64
}

impl Render for CompletionRenderer {
    fn begin(&mut self, started: &Started, _out: &mut Frames) {
        self.offsets = vec![0; started.choices];
        self.echoed = vec![self.echo.is_empty(); started.choices];
        self.scored = vec![vec![]; started.choices];
        self.growing.begin(started);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        let i = delta.choice;
        let (mut text, end) = match &delta.part {
            DeltaPart::Text(text) => (text.clone(), None),
            DeltaPart::End(end) => (String::new(), Some(end)),
            DeltaPart::Prompt { scored, .. } => {
                let first = i / self.made.max(1) * self.made.max(1);
                (first..first + self.made).for_each(|c| self.scored[c].extend_from_slice(scored));
                return;
            }
            _ => return,
        };
        self.growing.grow(delta.tokens.len());
        let mut entries = vec![];
        if !std::mem::replace(&mut self.echoed[i], true) {
            text.insert_str(0, &self.echo_text(i));
            let scored = std::mem::take(&mut self.scored[i]);
            entries = self.prompt_entries(i, &scored);
        }
        entries.extend(delta.tokens.iter().map(ListedToken::of));
        let mut offset = self.offsets[i];
        let logprobs = (self.logprobs && !entries.is_empty()).then(|| self.lists(&entries, &mut offset));
        self.offsets[i] = offset;
        let finish = end.filter(|e| e.why != Ended::Cancelled).map(|e| finish_reason(&e.why));
        let mut choice = json!({ "index": i, "text": text, "logprobs": logprobs, "finish_reason": finish });
        if self.token_ids {
            choice["token_ids"] = delta.tokens.iter().map(|t| t.id).collect();
        }
        let mut chunk = self.chunk(vec![choice]);
        if let Some(end) = end {
            chunk["timings"] = timings(&end.timings);
        }
        out.data(&chunk);
    }

    fn end(&mut self, total: &TokenUsage, out: &mut Frames) {
        if self.stream_usage != StreamUsage::Never {
            let mut chunk = self.head.object("text_completion", vec![]);
            chunk.insert("usage".into(), usage(total));
            out.data(&chunk);
        }
        out.raw("data: [DONE]\n\n");
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body(Dialect::OpenAi, ""));
        out.raw("data: [DONE]\n\n");
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let chosen = self.chosen(&answer.choices);
        let told =
            chosen.iter().enumerate().map(|(i, &made)| self.whole_choice(i, made, &answer.choices[made]));
        let mut body = self.head.object("text_completion", told.collect());
        body.insert("usage".into(), usage(&answer.usage));
        if let Some(end) = answer.choices.first().and_then(|c| c.end.as_ref()) {
            body.insert("timings".into(), timings(&end.timings));
        }
        Value::Object(body)
    }
}
