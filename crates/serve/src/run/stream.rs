//! A running request: events of the engine in, pieces of answers out.

use super::{
    attempt::{Attempt, Telling},
    delta::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, TokenUsage},
    draws,
    job::{AnswerJob, Wishes},
    open_choice::OpenChoice,
    prompt::{JobPrompt, MediaTokens},
    render::Started,
    resume::{self, SentPrompt},
    slot_turn::SlotTurn,
};
use crate::{
    body::BodyShare,
    error::{ApiError, Cause},
    models::Lease,
};
use lamina::{Canceller, Event, FinishReason, Handle, LengthBy, MediaUsed, StopBy, Timings, Token};
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Events that may wait for a reader before its sequences are paused.
const BACKLOG: usize = 64;

/// A running request. Dropping it cancels what has not ended.
pub struct Run {
    sent: Vec<SentPrompt>,
    choices: Vec<OpenChoice>,
    ready: VecDeque<AnswerDelta>,
    telling: Telling,
    /// Pieces at the front of those that are ready which an engine before this one told.
    told: usize,
    usage: TokenUsage,
    /// Tokens of each prompt in the places of pictures and sounds.
    media_tokens: Vec<MediaTokens>,
    /// What becomes of these.
    media: Vec<MediaUsed>,
    /// What their pixels hold of the memory for large bodies, until its first token.
    held: Option<BodyShare>,
    wishes: Wishes,
    started: Started,
    /// What ended it early.
    failure: Option<ApiError>,
    over: bool,
    /// The server ends.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Where the text of its first answer is remembered.
    slot: Option<SlotTurn>,
    /// The model must not go before the request.
    lease: Lease,
}

impl Run {
    /// Queues a request; `end` cancels it, `slot` remembers the text of its first answer. With an `attempt` it goes on behind
    /// what was told before, and what it says is told.
    ///
    /// # Errors
    /// Whatever is wrong with it; a full queue; a model that has stopped.
    pub fn start(
        mut job: AnswerJob,
        end: CancellationToken,
        slot: Option<SlotTurn>,
        attempt: Option<Arc<Attempt>>,
    ) -> Result<Run, ApiError> {
        job.check()?;
        let model = job.lease.model(job.wishes.lora.as_deref())?;
        job.wishes.generate.terms.backlog = BACKLOG * job.wishes.generate.n;
        let prompt_tokens: Vec<usize> = job.prompts.iter().map(|p| p.tokens.len()).collect();
        let media_tokens: Vec<MediaTokens> = job.prompts.iter().map(JobPrompt::media_tokens).collect();
        let choices = job.choices();
        let (told, telling) = Telling::begin(attempt, &model);
        let (sent, media) = resume::send(&model, job.prompts, &job.wishes, (&told, telling.tells()))?;
        let mut run = Run {
            sent,
            choices: (0..choices).map(|choice| OpenChoice::new(&job.split, draws::seed(choice))).collect(),
            ready: VecDeque::new(),
            telling,
            told: 0,
            usage: TokenUsage {
                prompt: prompt_tokens.iter().sum(),
                media: media_tokens.iter().copied().sum(),
                ..TokenUsage::default()
            },
            started: Started {
                prompt_tokens,
                media_tokens: media_tokens.iter().copied().sum(),
                choices,
                model: job.lease.name().to_owned(),
            },
            media_tokens,
            media,
            held: None,
            wishes: job.wishes,
            failure: None,
            over: false,
            end: Box::pin(end.cancelled_owned()),
            slot,
            lease: job.lease,
        };
        let rendered = told.into_iter().filter(|(_, event)| !matches!(event, Event::Progress { .. }));
        rendered.for_each(|(first, event)| run.take(first, event));
        run.told = run.ready.len();
        // What the engine refuses it refuses at once, and a refusal has a status.
        run.poll_handles(&mut Context::from_waker(Waker::noop()));
        run.failure.take().map_or(Ok(run), Err)
    }

    /// What cancels it from other threads, for each prompt.
    pub fn cancellers(&self) -> Vec<Canceller> {
        self.sent.iter().filter_map(|s| s.handle.as_ref()).map(Handle::canceller).collect()
    }

    /// What is known of it from the start.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// True where bytes of the answer were told before.
    pub fn told_before(&self) -> bool {
        self.telling.told_before()
    }

    /// The next piece that an engine before this one told.
    pub fn next_told(&mut self) -> Option<AnswerDelta> {
        self.told = self.told.checked_sub(1)?;
        self.ready.pop_front()
    }

    /// Holds memory until pictures and sounds are encoded: then comes its first token.
    pub fn hold(&mut self, share: BodyShare) {
        self.held = Some(share);
    }

    /// Tokens so far; all of them when it has ended.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// The next piece; none when all answers have ended.
    pub async fn next(&mut self) -> Option<Result<AnswerDelta, ApiError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Run::next`], polled.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<AnswerDelta, ApiError>>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            if self.over || self.sent.iter().all(|s| s.handle.is_none()) {
                self.telling.end();
                return Poll::Ready(None);
            }
            self.telling.publish();
            if self.end.as_mut().poll(context).is_ready() {
                let text = "the server is about to end";
                self.failure = Some(ApiError::unavailable(text, Duration::from_secs(5)));
            } else if !self.poll_handles(context) {
                return Poll::Pending;
            }
            if let Err(error) = self.check() {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Takes an event of each prompt that has one; true when there was any, or an end.
    fn poll_handles(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        for place in 0..self.sent.len() {
            let prompt = &mut self.sent[place];
            let Some(handle) = &prompt.handle else { continue };
            match handle.poll_next(context) {
                Poll::Pending => continue,
                Poll::Ready(None) => prompt.handle = None,
                Poll::Ready(Some(event)) => self.take_from(place, event),
            }
            any = true;
        }
        any
    }

    /// The failure that an event brought, told once.
    fn check(&mut self) -> Result<(), ApiError> {
        let Some(error) = self.failure.take() else { return Ok(()) };
        self.over = true;
        self.ready.clear();
        self.sent.clear();
        self.telling.end();
        Err(error)
    }

    /// Takes an event of a prompt, unless it was told before.
    fn take_from(&mut self, place: usize, mut event: Event) {
        let prompt = &mut self.sent[place];
        match &mut event {
            Event::Token(token) => match prompt.was_told(token.id) {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => return self.failure = Some(error),
            },
            Event::Finished { timings, .. } => *timings = prompt.whole(*timings),
            _ => {}
        }
        let first = prompt.first;
        self.telling.note(first, &event);
        if self.wishes.generate.progress || !matches!(event, Event::Progress { .. }) {
            self.take(first, event);
        }
    }

    fn take(&mut self, first: usize, event: Event) {
        match event {
            Event::Prompt { start, tokens } => {
                let part = DeltaPart::Prompt { start, scored: tokens };
                self.ready.push_back(AnswerDelta { choice: first, part, tokens: vec![] });
            }
            Event::Progress { prompt: total, cached, computed } => {
                let part = DeltaPart::Progress { total, cached, computed };
                self.ready.push_back(AnswerDelta { choice: first, part, tokens: vec![] });
            }
            Event::Token(token) => {
                self.held = None;
                self.token(first + token.index, token);
            }
            Event::Finished { index, text, reason, timings, .. } => {
                self.finish(first + index, text, reason, timings);
            }
            Event::Failed(e) => {
                let of_prompt = SentPrompt::is_of_prompt(&e);
                let error = ApiError::from(e);
                self.failure = Some(if of_prompt { error.of("prompt") } else { error });
            }
        }
    }

    fn token(&mut self, choice: usize, token: Token) {
        let Token { id, text, logprob, top, .. } = token;
        if let Some(slot) = self.slot.as_mut().filter(|_| choice == 0) {
            slot.push(id);
        }
        self.choices[choice].held.push(ChosenToken { id, logprob, top });
        let parts = self.choices[choice].push(text, Some(id));
        self.deliver(choice, parts);
        // The other answers to its prompt go on; what this one still says is dropped.
        if self.choices[choice].over() && self.wishes.generate.n == 1 {
            self.sent[choice].handle.iter().for_each(Handle::cancel);
        }
    }

    fn deliver(&mut self, choice: usize, parts: Vec<(DeltaPart, Vec<ChosenToken>)>) {
        self.ready.extend(parts.into_iter().map(|(part, tokens)| AnswerDelta { choice, part, tokens }));
    }

    fn finish(&mut self, choice: usize, rest: String, reason: FinishReason, timings: Timings) {
        let open = &mut self.choices[choice];
        let mut last = if rest.is_empty() { vec![] } else { open.push(rest, None) };
        last.extend(open.finish());
        self.deliver(choice, last);
        if timings.times.first_step.is_none()
            && matches!(reason, FinishReason::Length { by: LengthBy::Deadline })
        {
            let text = "the request has waited as long as it may, and was not begun: try again later";
            return self.failure = Some(ApiError::new(Cause::Timeout, text));
        }
        let why = match self.ended(choice, reason) {
            Ok(why) => why,
            Err(error) => return self.failure = Some(error),
        };
        let ended_by_token = matches!(reason, FinishReason::Stop { by: StopBy::End(_) });
        let usage = TokenUsage {
            prompt: timings.prompt_tokens,
            cached: timings.cached_tokens,
            completion: timings.tokens + usize::from(ended_by_token),
            reasoning: self.choices[choice].reasoning,
            media: self.media_tokens.get(choice / self.wishes.generate.n).copied().unwrap_or_default(),
        };
        self.usage.completion += usage.completion;
        self.usage.reasoning += usage.reasoning;
        if choice.is_multiple_of(self.wishes.generate.n) {
            self.usage.cached += usage.cached;
        }
        let tokens = std::mem::take(&mut self.choices[choice].held);
        let encode_seconds = self.media.iter().map(|used| used.now().encode_seconds).sum();
        let end = ChoiceEnd { why, usage, timings, encode_seconds };
        let part = DeltaPart::End(Box::new(end));
        self.ready.push_back(AnswerDelta { choice, part, tokens });
    }

    fn ended(&self, choice: usize, reason: FinishReason) -> Result<Ended, ApiError> {
        let called = self.choices[choice].calls() > 0;
        Ok(match reason {
            _ if self.choices[choice].over() => Ended::MaxTokens,
            FinishReason::Stop { by: StopBy::Text(i) } => {
                Ended::Text(self.wishes.generate.stop.get(i).cloned().unwrap_or_default())
            }
            FinishReason::Stop { by: StopBy::End(_) | StopBy::Grammar } if called => Ended::ToolCalls,
            FinishReason::Stop { by: StopBy::End(id) } => Ended::Token(id),
            // Nothing may follow: as if the token had come that ends answers.
            FinishReason::Stop { by: StopBy::Grammar } => {
                Ended::Token(self.lease.live.model.end_tokens().first().copied().unwrap_or(0))
            }
            FinishReason::Length { by: LengthBy::MaxTokens } => Ended::MaxTokens,
            FinishReason::Length { by: LengthBy::Context } => Ended::Context,
            FinishReason::Length { by: LengthBy::Deadline } if self.wishes.cut_at_deadline => Ended::Deadline,
            FinishReason::Length { by: LengthBy::Deadline } => {
                return Err(ApiError::new(Cause::Timeout, "the time of this request is over"));
            }
            FinishReason::Cancelled => Ended::Cancelled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::Split;
    use super::*;
    use lamina::{ChatAnswer, ChatFormat};
    use std::sync::Arc;

    fn token(id: u32) -> ChosenToken {
        ChosenToken { id, logprob: None, top: vec![] }
    }

    /// Every token of a stream comes once, and no part is empty, wherever its text is cut.
    #[test]
    fn tokens_without_text_go_with_the_next_part_or_the_end() {
        let format = ChatFormat::named("hermes").expect("a format");
        let mut chat = ChatAnswer::new(format, lamina::tokenizer(None).expect("the packaged tokenizer"));
        chat.tools = vec![serde_json::json!({ "type": "function", "function": { "name": "now" } })];
        let call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
        for (split, text) in [
            (Split::Chat(Arc::new(chat)), format!("Hm {call}")),
            (Split::Plain, "\u{e9}t\u{e9}".to_owned()),
            (Split::Plain, String::new()),
        ] {
            let mut open = OpenChoice::new(&split, None);
            let mut parts = vec![];
            let pieces = text.chars().flat_map(|c| [c.to_string(), String::new()]).chain([String::new()]);
            for (id, piece) in (0..).zip(pieces) {
                open.held.push(token(id));
                parts.extend(open.push(piece, Some(id)));
            }
            parts.extend(open.finish());
            let texts = parts.iter().filter_map(|(part, _)| match part {
                DeltaPart::Text(text) | DeltaPart::Reasoning(text) => Some(text),
                _ => None,
            });
            assert!(texts.clone().all(|t| !t.is_empty()), "{parts:?}");
            let said = texts.map(String::as_str).collect::<String>();
            assert_eq!(said.trim_end(), text.split("<tool").next().unwrap_or_default().trim_end());
            let told = parts.iter().flat_map(|(_, tokens)| tokens).chain(&open.held);
            assert!(told.map(|t| t.id).eq(0..=2 * text.chars().count() as u32), "{parts:?} {:?}", open.held);
        }
    }
}
