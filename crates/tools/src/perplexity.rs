//! Perplexity of a text in windows.

use lamina::{Error, Model, Prompt, Result, Special, Tokenizer};
use std::sync::{Arc, Mutex, PoisonError};

/// Windows of a perplexity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Tokens of a window.
    pub context: usize,
    /// Tokens from one window to the next; tokens that an earlier window has scored are not scored again.
    pub stride: usize,
    /// Tokens at the beginning of each window that are not scored: none for the plain definition, half the window for
    /// llama.cpp's.
    pub skip: usize,
}

impl Default for PerplexityOptions {
    fn default() -> Self {
        PerplexityOptions { context: 512, stride: 512, skip: 0 }
    }
}

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

/// Running sums of negative log-likelihoods.
#[derive(Default)]
struct LossSums {
    sum: f64,
    squares: f64,
    tokens: usize,
}

impl LossSums {
    fn add(&mut self, nll: f64) {
        self.sum += nll;
        self.squares += nll * nll;
        self.tokens += 1;
    }

    fn result(&self) -> Perplexity {
        let n = self.tokens as f64;
        let nll = self.sum / n;
        let variance = (self.squares / n - nll * nll).max(0.0);
        let ppl = nll.exp();
        let stderr = if self.tokens > 1 { ppl * (variance / (n - 1.0)).sqrt() } else { 0.0 };
        Perplexity { ppl, nll, tokens: self.tokens, stderr }
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
    let PerplexityOptions { context, stride, skip } = options;
    // Windows that the model cannot hold shrink, and what divides them shrinks along.
    let (stride, context) = match model.info().context {
        held if held < context => (stride.min(held), held),
        _ => (stride, context),
    };
    if context < 2 || stride == 0 || stride > context || skip + 1 >= context {
        let sizes = format!("context {context}, stride {stride}, skip {skip}");
        return Err(Error::InvalidRequest(format!(
            "perplexity windows do not fit ({sizes}): stride must be from 1 to context, skip below it"
        )));
    }
    let tokens = tokens(model, prompt)?;
    if tokens.len() < skip + 2 {
        return Err(Error::InvalidRequest(format!(
            "perplexity needs at least {} tokens, the text has {}",
            skip + 2,
            tokens.len()
        )));
    }
    let bos = if matches!(prompt, Prompt::Text(_)) { beginning(model) } else { None };
    let windows = windows(tokens.len(), context, stride);
    let mut sums = LossSums::default();
    let mut scored = 0;
    for (i, &(start, end)) in windows.iter().enumerate() {
        let first = skip.max(scored.max(start) - start);
        let keep = &mut || progress(i, windows.len());
        score_window(model, &tokens[start..end], bos, first, &mut sums, keep)?;
        scored = end;
        if !progress(i + 1, windows.len()) {
            return Err(Error::Runtime("the perplexity was cancelled".into()));
        }
    }
    Ok(sums.result())
}

/// Scores tokens of a window from `first` on; the first token of all has nothing before it and is never scored.
fn score_window(
    model: &Model,
    window: &[u32],
    bos: Option<u32>,
    first: usize,
    sums: &mut LossSums,
    keep: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut tokens = window.to_vec();
    if let Some(bos) = bos {
        tokens[0] = bos;
    }
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
    nlls.iter().enumerate().filter(|(i, _)| i + 1 >= first.max(1)).for_each(|(_, &nll)| sums.add(nll));
    Ok(())
}

fn tokens(model: &Model, prompt: &Prompt) -> Result<Vec<u32>> {
    match prompt {
        Prompt::Tokens(tokens) => Ok(tokens.clone()),
        Prompt::Text(text) => model.tokenize(text, Special::ADD),
    }
}

/// The token that begins each window of a text.
fn beginning(model: &Model) -> Option<u32> {
    model.tokenizer().filter(|t| t.adds_bos()).and_then(Tokenizer::bos)
}

fn negative_log_likelihood(row: &[f32], target: u32) -> f64 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|l| f64::from(l - top).exp()).sum();
    f64::from(top - row[target as usize]) + sum.ln()
}

/// Start and end of each window; the last one may be shorter.
fn windows(tokens: usize, context: usize, stride: usize) -> Vec<(usize, usize)> {
    let mut out = vec![];
    let mut start = 0;
    loop {
        let end = (start + context).min(tokens);
        if end - start >= 2 {
            out.push((start, end));
        }
        if end == tokens {
            return out;
        }
        start += stride;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_token() {
        assert_eq!(windows(10, 4, 4), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!(windows(10, 6, 2), [(0, 6), (2, 8), (4, 10)]);
        assert_eq!(windows(3, 8, 8), [(0, 3)]);
    }

    #[test]
    fn equal_logits_give_the_logarithm_of_the_vocabulary() {
        assert!((negative_log_likelihood(&[3.0; 8], 5) - 8f64.ln()).abs() < 1e-9);
    }
}
