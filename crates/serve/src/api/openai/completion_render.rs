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
use lamina::{Markers, Scored, StreamDecoder, Tokenizer};
use serde_json::{Map, Value, json};
use std::sync::Arc;

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
    /// The prompts.
    prompts: Vec<Vec<u32>>,
    /// They stand before their answers.
    echo: bool,
    /// Tokens that rows of pictures and sounds take the places of, where there are any: they have no logprob.
    soft: Arc<[u32]>,
    /// Where the text of each answer's next token begins; none of those that have not begun.
    places: Vec<Option<TextPlaces>>,
    /// Characters of each answer that were sent.
    sent: Vec<usize>,
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
            prompts: vec![],
            echo: false,
            soft: Arc::default(),
            places: vec![],
            sent: vec![],
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

    /// The prompts, and whether they stand before their answers.
    pub fn prompts(self, prompts: &[Vec<u32>], echo: bool) -> Self {
        let prompts = if echo || self.logprobs { prompts.to_vec() } else { vec![] };
        CompletionRenderer { prompts, echo, ..self }
    }

    /// The tokens in whose places the prompts have rows of pictures and sounds.
    pub fn soft(self, soft: Arc<[u32]>) -> Self {
        CompletionRenderer { soft, ..self }
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

    /// Tokens of the prompt of answer `choice`.
    fn prompt(&self, choice: usize) -> &[u32] {
        self.prompts.get(choice / self.made.max(1)).map_or(&[][..], Vec::as_slice)
    }

    /// The prompt's text that stands before answer `choice`.
    fn echo_text(&self, choice: usize) -> String {
        let told = self.tokenizer.as_ref().filter(|_| self.echo);
        told.and_then(|t| t.decode(self.prompt(choice)).ok()).unwrap_or_default()
    }

    /// The prompt's tokens where it is told, with logprobs: the first has none, since nothing stands before it. Returns
    /// also where the text of the answer begins.
    fn prompt_entries(&self, choice: usize, scored: &[Scored]) -> (Vec<ListedToken>, TextPlaces) {
        let (prompt, tokenizer) = (self.prompt(choice), self.tokenizer.as_ref());
        if !(self.echo && self.logprobs) {
            return (vec![], TextPlaces::after(tokenizer, prompt));
        }
        let mut places = TextPlaces::after(tokenizer, &[]);
        let bare = prompt.len().saturating_sub(scored.len());
        let scores = std::iter::repeat_n(None, bare).chain(scored.iter().map(Some));
        let entry = |(&id, scored): (&u32, Option<&Scored>)| {
            let scored = scored.filter(|_| !self.soft.contains(&id));
            ListedToken {
                id,
                offset: places.next(id),
                logprob: scored.map(|s| s.logprob),
                top: scored.map_or_else(Vec::new, |s| s.top.clone()),
            }
        };
        let entries = prompt.iter().zip(scores).map(entry).collect();
        // A character that the prompt leaves unfinished is told as U+FFFD.
        places.chars = self.echo_text(choice).chars().count();
        (entries, places)
    }

    /// OpenAI's four lists. No token begins behind the text that is told, whose end a stop string may have cut.
    fn lists(&self, entries: &[ListedToken], end: usize) -> Value {
        let text = |id| piece(self.tokenizer.as_ref(), id).0;
        let mut lists = (vec![], vec![], vec![], vec![]);
        for entry in entries {
            lists.3.push(json!(entry.offset.min(end)));
            lists.0.push(json!(text(entry.id)));
            lists.1.push(json!(entry.logprob.map(logprob)));
            let top: Map<String, Value> =
                entry.top.iter().map(|&(id, l)| (text(id), json!(logprob(l)))).collect();
            lists.2.push(if entry.logprob.is_some() { Value::Object(top) } else { Value::Null });
        }
        json!({ "tokens": lists.0, "token_logprobs": lists.1, "top_logprobs": lists.2, "text_offset": lists.3 })
    }

    fn whole_choice(&self, index: usize, made: usize, choice: &WholeChoice, scored: &[Scored]) -> Value {
        let text = format!("{}{}", self.echo_text(made), choice.text);
        let logprobs = self.logprobs.then(|| {
            let (mut entries, mut places) = self.prompt_entries(made, scored);
            entries.extend(choice.tokens.iter().map(|token| ListedToken::of(token, &mut places)));
            self.lists(&entries, text.chars().count())
        });
        let finish = choice.end.as_ref().map_or("stop", |e| finish_reason(&e.why));
        let mut value =
            json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": finish });
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
    /// Characters of the text before its own.
    offset: usize,
    logprob: Option<f32>,
    top: Vec<(u32, f32)>,
}

impl ListedToken {
    fn of(token: &ChosenToken, places: &mut TextPlaces) -> ListedToken {
        let offset = places.next(token.id);
        ListedToken { id: token.id, offset, logprob: token.logprob, top: token.top.clone() }
    }
}

/// Where the text of tokens begins in the text that is sent: special tokens have none, and a character may take several.
struct TextPlaces {
    decoder: Option<StreamDecoder>,
    chars: usize,
}

impl TextPlaces {
    /// Of a text that goes on after `tokens`.
    fn after(tokenizer: Option<&Tokenizer>, tokens: &[u32]) -> TextPlaces {
        let decoder = tokenizer.map(|t| StreamDecoder::after(t, Markers::Hide, tokens));
        TextPlaces { decoder, chars: 0 }
    }

    /// Where the next token's text begins.
    fn next(&mut self, id: u32) -> usize {
        // Ids without a text, such as padding of the vocabulary, add nothing.
        let text = self.decoder.as_mut().and_then(|d| d.push(id).ok()).unwrap_or_default();
        let chars = self.chars + text.chars().count();
        std::mem::replace(&mut self.chars, chars)
    }
}

/// Mean logprob of an answer's tokens.
fn likelihood(choice: &WholeChoice) -> f64 {
    let sum: f64 = choice.tokens.iter().filter_map(|t| t.logprob).map(f64::from).sum();
    sum / choice.tokens.len().max(1) as f64
}

impl Render for CompletionRenderer {
    fn id(&self) -> &str {
        &self.head.id
    }

    fn begin(&mut self, started: &Started, _out: &mut Frames) {
        self.sent = vec![0; started.choices];
        self.places.resize_with(started.choices, || None);
        self.scored = vec![vec![]; started.choices];
        self.growing.begin(started);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        let i = delta.choice;
        let (mut text, end) = match &delta.part {
            DeltaPart::Text(text) => (text.clone(), None),
            DeltaPart::End(end) => (String::new(), Some(&**end)),
            DeltaPart::Prompt { scored, .. } => {
                let first = i / self.made.max(1) * self.made.max(1);
                (first..first + self.made).for_each(|c| self.scored[c].extend_from_slice(scored));
                return;
            }
            _ => return,
        };
        self.growing.grow(delta.tokens.len());
        let mut entries = vec![];
        if self.places[i].is_none() {
            text.insert_str(0, &self.echo_text(i));
            let scored = std::mem::take(&mut self.scored[i]);
            let (prompt, places) = self.prompt_entries(i, &scored);
            entries = prompt;
            self.places[i] = Some(places);
        }
        self.sent[i] += text.chars().count();
        if let Some(places) = self.places[i].as_mut().filter(|_| self.logprobs) {
            entries.extend(delta.tokens.iter().map(|token| ListedToken::of(token, places)));
        }
        let most = if end.is_some() { self.sent[i] } else { usize::MAX };
        let logprobs = (self.logprobs && !entries.is_empty()).then(|| self.lists(&entries, most));
        let finish = end.filter(|e| e.why != Ended::Cancelled).map(|e| finish_reason(&e.why));
        let mut choice = json!({ "index": i, "text": text, "logprobs": logprobs, "finish_reason": finish });
        if self.token_ids {
            choice["token_ids"] = delta.tokens.iter().map(|t| t.id).collect();
        }
        let mut chunk = self.chunk(vec![choice]);
        if let Some(end) = end {
            chunk["timings"] = timings(end);
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
        let told = chosen.iter().enumerate().map(|(i, &made)| {
            // The prompt is scored once for all answers to it.
            let scored = &answer.choices[made / self.made.max(1) * self.made.max(1)].prompt;
            self.whole_choice(i, made, &answer.choices[made], scored)
        });
        let mut body = self.head.object("text_completion", told.collect());
        body.insert("usage".into(), usage(&answer.usage));
        if let Some(end) = answer.choices.first().and_then(|c| c.end.as_ref()) {
            body.insert("timings".into(), timings(end));
        }
        Value::Object(body)
    }
}
