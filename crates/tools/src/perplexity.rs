//! Perplexity of a text in windows.

use crate::windows::{PerplexityOptions, TextWindow, TextWindows};
use lamina::{Error, Model, Prompt, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// How well a model predicts a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perplexity {
    /// `exp(nll)`.
    pub ppl: f64,
    /// Mean negative log-likelihood in nats per token.
    pub nll: f64,
    /// Tokens that were scored.
    pub tokens: usize,
    /// Standard error of `ppl`.
    pub stderr: f64,
}

impl Perplexity {
    /// Of the losses of tokens in nats, of which there is one at least.
    pub fn of(losses: &[f64]) -> Perplexity {
        let n = losses.len() as f64;
        let (sum, squares) = losses.iter().fold((0.0, 0.0), |(sum, squares), l| (sum + l, squares + l * l));
        let nll: f64 = sum / n;
        let variance = (squares / n - nll * nll).max(0.0);
        let ppl = nll.exp();
        let stderr = if losses.len() > 1 { ppl * (variance / (n - 1.0)).sqrt() } else { 0.0 };
        Perplexity { ppl, nll, tokens: losses.len(), stderr }
    }
}

/// Perplexity of `prompt` to `model`; `progress` is told windows done and in all, and gives up by returning false.
///
/// A text starts each window with the model's beginning token where it has one; tokens are taken as they are.
///
/// # Errors
/// When there is nothing to score, the windows are wrong, or the model fails.
pub fn perplexity(
    model: &Model,
    prompt: &Prompt,
    options: PerplexityOptions,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Perplexity> {
    token_losses(model, prompt, options, progress).map(|losses| Perplexity::of(&losses))
}

/// The loss of each scored token in nats, in the order of the text. Arguments as of [`perplexity`].
///
/// # Errors
/// As for [`perplexity`].
pub fn token_losses(
    model: &Model,
    prompt: &Prompt,
    options: PerplexityOptions,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Vec<f64>> {
    let text = TextWindows::new(model, prompt, options)?;
    let (mut losses, windows) = (vec![], text.all());
    let all = windows.len();
    for (i, window) in windows.enumerate() {
        score_window(model, window, &mut losses, &mut || progress(i, all))?;
        if !progress(i + 1, all) {
            return Err(Error::Runtime("the perplexity was cancelled".into()));
        }
    }
    Ok(losses)
}

/// Scores the tokens of a window from its first one on.
fn score_window(
    model: &Model,
    window: TextWindow,
    losses: &mut Vec<f64>,
    keep: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let TextWindow { tokens, first } = window;
    let shared = Arc::new(Mutex::new(vec![]));
    let (nlls, targets) = (shared.clone(), tokens.clone());
    let vocab = model.info().vocab;
    model.pass(
        tokens,
        None,
        Box::new(move |start, rows| {
            let mut nlls = nlls.lock().unwrap_or_else(PoisonError::into_inner);
            for (i, row) in rows.chunks_exact(vocab).enumerate() {
                if let Some(&target) = targets.get(start + i + 1) {
                    nlls.push(negative_log_likelihood(row, target));
                }
            }
        }),
        keep,
    )?;
    let nlls = shared.lock().unwrap_or_else(PoisonError::into_inner);
    losses.extend(nlls.iter().skip(first.saturating_sub(1)));
    Ok(())
}

fn negative_log_likelihood(row: &[f32], target: u32) -> f64 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|l| f64::from(l - top).exp()).sum();
    f64::from(top - row[target as usize]) + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_give_the_logarithm_of_the_vocabulary() {
        assert!((negative_log_likelihood(&[3.0; 8], 5) - 8f64.ln()).abs() < 1e-9);
    }
}
