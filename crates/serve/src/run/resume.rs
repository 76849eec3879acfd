//! Prompts sent to the engine: as they are, or behind what another engine told of their answers.

use super::{attempt::ToldEvent, draws, job::Wishes, prompt::JobPrompt};
use crate::error::ApiError;
use lamina::{
    AnswerState, EngineError, Event, GenerateOptions, Handle, MediaInputs, MediaUsed, Model, Timings,
    sample::SamplerState,
};

/// A prompt whose answers the engine is asked for.
pub(super) struct SentPrompt {
    /// None when its answers have ended.
    pub handle: Option<Handle>,
    /// Number of its first answer.
    pub first: usize,
    /// Tokens of the answer that the engine was given with the prompt.
    answered: usize,
    /// Tokens of the prompt that the engine before it had found in its cache.
    cached: Option<usize>,
    /// The last token that was told: the engine chooses it again, with whatever ends the answer behind it.
    again: Option<u32>,
}

/// What was told of an answer.
#[derive(Default)]
struct ToldAnswer {
    tokens: Vec<(u32, Option<SamplerState>)>,
    ended: bool,
    /// Tokens of its prompt that were cached where it began.
    cached: Option<usize>,
}

/// Sends all prompts, each with the answers that have not ended; also what becomes of their pictures and sounds. Dropping the handles
/// cancels: a request is queued as a whole or not at all. Where somebody is told of the answers, the engine says how much of each
/// prompt it has found.
///
/// # Errors
/// What the engine refuses.
pub(super) fn send(
    model: &Model,
    prompts: Vec<JobPrompt>,
    wishes: &Wishes,
    (told, tells): (&[ToldEvent], bool),
) -> Result<(Vec<SentPrompt>, Vec<MediaUsed>), ApiError> {
    let n = wishes.generate.n;
    let (mut sent, mut media) = (vec![], vec![]);
    let mut submit = |tokens: &[u32], options: &GenerateOptions| {
        let (handle, used) = model.submit_media(tokens.to_vec(), options)?;
        media.push(used);
        Ok::<_, ApiError>(Some(handle))
    };
    for (place, prompt) in prompts.into_iter().enumerate() {
        let MediaInputs { images, sounds } = prompt.inputs();
        let mut options = GenerateOptions { images, sounds, ..wishes.generate.clone() };
        let fixed = draws::seed(place).and_then(|seed| i64::try_from(seed).ok());
        options.sampling.draw.seed = options.sampling.draw.seed.or(fixed);
        let answers = answers_of(place * n, n, told);
        if answers.iter().all(|a| a.tokens.is_empty() && !a.ended) {
            options.progress |= tells;
            let handle = submit(&prompt.tokens, &options)?;
            sent.push(SentPrompt { handle, first: place * n, answered: 0, cached: None, again: None });
            continue;
        }
        for (index, answer) in answers.into_iter().enumerate().filter(|(_, answer)| !answer.ended) {
            let (options, again) = behind(&options, index, &answer.tokens);
            let (answered, cached) = (answer.tokens.len().saturating_sub(1), answer.cached);
            let handle = submit(&prompt.tokens, &options)?;
            sent.push(SentPrompt { handle, first: place * n + index, answered, cached, again });
        }
    }
    Ok((sent, media))
}

/// What was told of the `n` answers from `first` on.
fn answers_of(first: usize, n: usize, told: &[ToldEvent]) -> Vec<ToldAnswer> {
    let mut answers: Vec<ToldAnswer> = (0..n).map(|_| ToldAnswer::default()).collect();
    for (from, event) in told {
        let place = |index: &usize| (from + index).checked_sub(first);
        match event {
            Event::Token(token) => {
                let answer = place(&token.index).and_then(|place| answers.get_mut(place));
                answer.into_iter().for_each(|a| a.tokens.push((token.id, token.sampler)));
            }
            Event::Finished { index, .. } => {
                let answer = place(index).and_then(|place| answers.get_mut(place));
                answer.into_iter().for_each(|a| a.ended = true);
            }
            Event::Progress { cached, .. } if *from == first => {
                answers.iter_mut().for_each(|answer| answer.cached = Some(*cached));
            }
            Event::Prompt { .. } | Event::Progress { .. } | Event::Failed(_) => {}
        }
    }
    answers
}

/// The options of one answer behind all of its tokens but the last, and that one.
fn behind(
    options: &GenerateOptions,
    index: usize,
    tokens: &[(u32, Option<SamplerState>)],
) -> (GenerateOptions, Option<u32>) {
    let (last, before) = tokens.split_last().map_or((None, tokens), |(last, before)| (Some(last.0), before));
    let seed = options.sampling.draw.seed.unwrap_or_default() as u64;
    let begin = SamplerState { seed, index: index as u64, ..SamplerState::default() };
    let sampler = before.last().map_or(Some(begin), |(_, state)| *state).unwrap_or(begin);
    let state = AnswerState { tokens: before.iter().map(|(id, _)| *id).collect(), sampler };
    let options = GenerateOptions {
        n: 1,
        echo: false,
        progress: false,
        max_tokens: options.max_tokens.map(|most| most.saturating_sub(before.len())),
        resume: Some(state),
        ..options.clone()
    };
    (options, last)
}

impl SentPrompt {
    /// True where this token was told before: it is the first that comes.
    ///
    /// # Errors
    /// When it is another one.
    pub fn was_told(&mut self, id: u32) -> Result<bool, ApiError> {
        match self.again.take() {
            None => Ok(false),
            Some(told) if told == id => Ok(true),
            Some(_) => {
                Err(ApiError::fault("this engine goes on with another token than the one before it told"))
            }
        }
    }

    /// Timings of the whole answer: what was told before is no part of the prompt, and what was cached is what was where it began.
    pub fn whole(&self, timings: Timings) -> Timings {
        let prompt_tokens = timings.prompt_tokens.saturating_sub(self.answered);
        let cached_tokens = self.cached.unwrap_or(timings.cached_tokens).min(prompt_tokens);
        Timings {
            prompt_tokens,
            cached_tokens,
            disk_tokens: timings.disk_tokens.min(cached_tokens),
            tokens: timings.tokens + self.answered,
            ..timings
        }
    }

    /// True where the error is about the prompt.
    pub fn is_of_prompt(error: &EngineError) -> bool {
        matches!(
            error,
            EngineError::EmptyPrompt
                | EngineError::UnknownToken { .. }
                | EngineError::TooLong { .. }
                | EngineError::CacheTooSmall { .. }
        )
    }
}
