//! A sequence of tokens with its place in the cache, and what it is for.

use crate::{
    error::Result,
    output::{Event, FinishReason, Timings, Token},
    request::{Generation, Pass, Request, Stage},
    sample::{Context, Sampled, Sampler},
    stop::{StopMatcher, StopText},
};
use lamina_plan::Plan;
use lamina_text::{Markers, StreamDecoder};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Instant,
};

/// A sequence that waits or runs.
pub(crate) struct Sequence {
    /// Prompt and chosen tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_len: usize,
    /// Strength of each adapter by its index.
    pub adapters: Arc<[f32]>,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Pages from position 0 on.
    pub pages: Vec<u32>,
    /// Hashes of the full pages that are published.
    pub hashes: Vec<u64>,
    /// Recurrent state, while running.
    pub state: Option<u32>,
    /// What the rows are for.
    pub purpose: Purpose,
    /// Prompt tokens that were found in the cache.
    pub cached: usize,
    cancel: Arc<AtomicBool>,
    events: Sender<Event>,
    started: Option<Instant>,
    first_token: Option<Instant>,
}

/// What the rows of a sequence are for.
pub(crate) enum Purpose {
    /// An answer.
    Answer(Box<Answer>),
    /// Rows of the given tokens.
    Pass(Pass),
}

/// The growing answer of a sequence.
pub(crate) struct Answer {
    /// What was asked for; the answers to come are split off when the prompt is computed.
    pub generation: Generation,
    /// Which of the `n` answers.
    pub index: usize,
    sampler: Sampler,
    decoder: Option<StreamDecoder>,
    stop: Option<StopMatcher>,
}

impl Answer {
    fn new(generation: Generation, index: usize, tokens: &[u32], vocab: usize) -> Result<Answer> {
        let context = Context { vocab, index: index as u64, breakers: generation.breakers.clone() };
        let mut sampler = Sampler::new(&generation.params, context)?;
        tokens.iter().for_each(|&t| sampler.accept(t));
        let decoder = generation.tokenizer.as_ref().map(|t| StreamDecoder::after(t, Markers::Hide, tokens));
        let rule = if generation.include_stop { StopText::Include } else { StopText::Exclude };
        let stop =
            if generation.stop.is_empty() { None } else { Some(StopMatcher::new(&generation.stop, rule)?) };
        Ok(Answer { generation, index, sampler, decoder, stop })
    }
}

impl Sequence {
    /// The sequence of a request that was checked.
    pub fn new(request: Request, vocab: usize) -> Result<Sequence> {
        let purpose = match request.stage {
            Stage::Generate(g) => Purpose::Answer(Box::new(Answer::new(*g, 0, &request.prompt, vocab)?)),
            Stage::Pass(pass) => Purpose::Pass(pass),
        };
        Ok(Sequence {
            prompt_len: request.prompt.len(),
            adapters: request.adapters,
            tokens: request.prompt,
            computed: 0,
            pages: vec![],
            hashes: vec![],
            state: None,
            purpose,
            cached: 0,
            cancel: request.cancel,
            events: request.events,
            started: None,
            first_token: None,
        })
    }

    /// Answer `index` to the same prompt, which this sequence has computed. It holds no pages and no state yet.
    pub fn fork(&self, index: usize, vocab: usize) -> Option<Result<Sequence>> {
        let Purpose::Answer(answer) = &self.purpose else { return None };
        let made = Answer::new(answer.generation.clone(), index, &self.tokens, vocab);
        Some(made.map(|answer| Sequence {
            tokens: self.tokens.clone(),
            prompt_len: self.prompt_len,
            adapters: self.adapters.clone(),
            computed: self.computed,
            pages: vec![],
            hashes: self.hashes.clone(),
            state: None,
            purpose: Purpose::Answer(Box::new(answer)),
            cached: self.cached,
            cancel: self.cancel.clone(),
            events: self.events.clone(),
            started: self.started,
            first_token: None,
        }))
    }

    /// Salt of the sequence's pages: those of one prompt differ where its adapters do.
    pub fn salt(&self, plan: &Plan) -> u64 {
        let used = self.adapters.iter().enumerate().filter(|(_, s)| **s != 0.0);
        used.fold(plan.prefix_salt(self.prompt_len), |salt, (i, s)| {
            let mut h = DefaultHasher::new();
            (salt, i, s.to_bits()).hash(&mut h);
            h.finish()
        })
    }

    /// True for a pass that ends in the middle of the plan; the layers behind it get no keys.
    pub fn is_hidden(&self) -> bool {
        matches!(&self.purpose, Purpose::Pass(Pass { hidden: Some(_), .. }))
    }

    /// Tokens that still have to be computed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// True when the caller has given up.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Notes the first step.
    pub fn start(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// Chooses the next token from its row of logits.
    pub fn sample(&mut self, logits: &mut [f32]) -> Result<Sampled> {
        let Purpose::Answer(answer) = &mut self.purpose else { unreachable!("only answers are sampled") };
        let sampled = answer.sampler.sample(logits, None)?;
        answer.sampler.accept(sampled.id);
        Ok(sampled)
    }

    /// Appends a chosen token and tells the caller. Returns why the answer ends, if it does.
    ///
    /// # Errors
    /// When the tokenizer does not know the token.
    pub fn commit(&mut self, sampled: Sampled, context: usize) -> Result<Option<FinishReason>> {
        self.first_token.get_or_insert_with(Instant::now);
        let Purpose::Answer(answer) = &mut self.purpose else { return Ok(None) };
        if answer.generation.end_tokens.contains(&sampled.id) {
            return Ok(Some(FinishReason::Stop));
        }
        self.tokens.push(sampled.id);
        let piece = answer.decoder.as_mut().map(|d| d.push(sampled.id)).transpose()?.unwrap_or_default();
        let mut text = String::new();
        let hit = match &mut answer.stop {
            Some(stop) => stop.push(&piece, &mut text).is_some(),
            None => {
                text = piece;
                false
            }
        };
        let Sampled { id, logprob, top } = sampled;
        self.send(Event::Token(Token { index: self.index(), id, text, logprob, top }));
        Ok(self.end_of_answer(hit, context))
    }

    fn end_of_answer(&mut self, stopped: bool, context: usize) -> Option<FinishReason> {
        let Purpose::Answer(answer) = &mut self.purpose else { return None };
        if stopped {
            // What the decoder still holds comes after the stop string.
            answer.decoder = None;
            answer.stop = None;
            return Some(FinishReason::Stop);
        }
        let chosen = self.tokens.len() - self.prompt_len;
        // The last token of all is never computed, so it may stand one position behind the context.
        let full = self.tokens.len() > context || answer.generation.max_tokens.is_some_and(|m| chosen >= m);
        full.then_some(FinishReason::Length)
    }

    /// Tells the caller that the answer has ended, with all text that was held back.
    pub fn finish(&mut self, reason: FinishReason) {
        let mut text = String::new();
        if let Purpose::Answer(answer) = &mut self.purpose {
            let rest = answer.decoder.as_mut().map(StreamDecoder::finish).unwrap_or_default();
            match &mut answer.stop {
                Some(stop) => {
                    stop.push(&rest, &mut text);
                    stop.finish(&mut text);
                }
                None => text = rest,
            }
        }
        let event = Event::Finished { index: self.index(), text, reason, timings: self.timings() };
        self.send(event);
    }

    /// Tells the caller that the request failed.
    pub fn fail(&self, error: crate::EngineError) {
        self.send(Event::Failed(error));
    }

    /// Which of the `n` answers; 0 for a pass.
    pub fn index(&self) -> usize {
        if let Purpose::Answer(answer) = &self.purpose { answer.index } else { 0 }
    }

    fn timings(&self) -> Timings {
        let first = self.first_token.unwrap_or_else(Instant::now);
        let prefill = self.started.map_or(0.0, |s| (first - s).as_secs_f64());
        Timings {
            prompt_tokens: self.prompt_len,
            cached_tokens: self.cached,
            tokens: self.tokens.len() - self.prompt_len,
            prefill_seconds: prefill,
            decode_seconds: first.elapsed().as_secs_f64(),
        }
    }

    /// A caller that has gone away needs no events; its cancel flag ends the sequence.
    fn send(&self, event: Event) {
        if self.events.send(event).is_err() {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}
