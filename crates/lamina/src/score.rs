//! How likely continuations are behind their contexts.

use crate::{
    Error, Result,
    generate::{GenerateOptions, Piece, Prompt},
    model::Model,
    token_stream::TokenStream,
};
use lamina_engine::{Generation, Task, sample::SamplingParams};
use lamina_plan::PAGE_LEN;
use std::{collections::HashMap, time::Duration};

/// How often a wait asks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// How likely a continuation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContinuationScore {
    /// Sum of the natural logarithms of its tokens' probabilities; 0 for no tokens.
    pub logprob: f64,
    /// Each of its tokens is the likeliest one of its place.
    pub greedy: bool,
}

impl Model {
    /// Scores each continuation behind its context. All run as one batch, and what several contexts begin with is
    /// computed once. `keep` is asked while it waits, and gives up by returning false.
    ///
    /// Of texts, spaces at the end of a context count for the continuation, and the continuation's tokens are those that
    /// both together have behind the context's.
    ///
    /// # Errors
    /// When a context is empty, a text is scored behind token ids, tokens do not fit, the model fails, or `keep` gives up.
    pub fn score(
        &self,
        pairs: &[(Prompt, Prompt)],
        keep: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<ContinuationScore>> {
        let pairs = pairs.iter().map(|(a, b)| self.pair_tokens(a, b)).collect::<Result<Vec<_>>>()?;
        self.compute_shared(&pairs, keep)?;
        let running = pairs.iter().map(|pair| self.submit_score(pair)).collect::<Result<Vec<_>>>()?;
        running.into_iter().map(|running| sum(running, keep)).collect()
    }

    /// Tokens of both, and where those of the continuation begin.
    fn pair_tokens(&self, context: &Prompt, continuation: &Prompt) -> Result<(Vec<u32>, usize)> {
        let (tokens, from) = match (context, continuation) {
            (Prompt::Tokens(a), Prompt::Tokens(b)) => ([&a[..], b].concat(), a.len()),
            (Prompt::Text(a), Prompt::Text(b)) => {
                let before = self.prompt_tokens(&Prompt::Text(a.trim_end().into()))?;
                let both = self.prompt_tokens(&Prompt::Text(format!("{a}{b}")))?;
                let behind = both.get(before.len()..).unwrap_or_default();
                ([&before[..], behind].concat(), before.len())
            }
            _ => {
                let text = "a context and its continuation are both texts or both token ids";
                return Err(Error::InvalidRequest(text.into()));
            }
        };
        match from {
            0 => Err(Error::InvalidRequest(
                "the context is empty: nothing says how likely a first token is".into(),
            )),
            _ => Ok((tokens, from)),
        }
    }

    /// Computes contexts that several continuations have, so that these find them in the cache.
    fn compute_shared(&self, pairs: &[(Vec<u32>, usize)], keep: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut uses = HashMap::new();
        pairs.iter().for_each(|(tokens, from)| *uses.entry(&tokens[..*from]).or_insert(0) += 1);
        // Pages alone are shared.
        let shared = uses.into_iter().filter(|(tokens, uses)| *uses > 1 && tokens.len() > PAGE_LEN);
        let options = GenerateOptions { max_tokens: Some(0), ..GenerateOptions::default() };
        let running = shared.map(|(tokens, _)| self.stream(&Prompt::Tokens(tokens.to_vec()), &options));
        let running = running.collect::<Result<Vec<_>>>()?;
        running.into_iter().try_for_each(|mut running| pieces(&mut running, keep, |_| {}))
    }

    fn submit_score(&self, (tokens, from): &(Vec<u32>, usize)) -> Result<TokenStream> {
        let generation = Generation {
            max_tokens: Some(0),
            params: SamplingParams::default(),
            prompt_logprobs: Some(1),
            scored_from: *from,
            ..Generation::default()
        };
        let task = Task::Generate(Box::new(generation));
        let handle = self.send(tokens.clone(), vec![], task, &GenerateOptions::default())?;
        Ok(TokenStream::new(handle, 1, self.clone()))
    }
}

fn sum(mut running: TokenStream, keep: &mut dyn FnMut() -> bool) -> Result<ContinuationScore> {
    let mut score = ContinuationScore { logprob: 0.0, greedy: true };
    pieces(&mut running, keep, |piece| {
        for token in piece.prompt {
            score.logprob += f64::from(token.logprob);
            score.greedy &= token.top.first().is_some_and(|&(id, _)| id == token.id);
        }
    })?;
    Ok(score)
}

/// Waits for all pieces of a request; dropping it then cancels it.
fn pieces(
    running: &mut TokenStream,
    keep: &mut dyn FnMut() -> bool,
    mut take: impl FnMut(Piece),
) -> Result<()> {
    loop {
        match running.next_within(PATIENCE) {
            Ok(Some(piece)) => take(piece),
            Ok(None) if keep() => {}
            Ok(None) => return Err(Error::Runtime("the scoring was cancelled".into())),
            Err(end) => return end.map_or(Ok(()), Err),
        }
    }
}
