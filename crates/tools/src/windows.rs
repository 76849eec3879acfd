//! A text in windows, each token scored once.

use lamina::{Error, Model, Prompt, Result, Special, Tokenizer};

/// Windows of a text that is scored.
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

/// Tokens, and how they are cut.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextWindows {
    pub tokens: Vec<u32>,
    /// Takes the place of the first token of each window.
    pub bos: Option<u32>,
    pub options: PerplexityOptions,
}

/// A stretch of the text that one forward reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextWindow {
    pub tokens: Vec<u32>,
    /// The first token that is scored, at least 1: nothing stands before the first of all.
    pub first: usize,
}

impl TextWindows {
    /// Windows that shrink to what `model` can hold.
    pub fn new(model: &Model, prompt: &Prompt, options: PerplexityOptions) -> Result<TextWindows> {
        let PerplexityOptions { context, stride, skip } = options;
        // What divides them shrinks along.
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
        let tokens = text_tokens(model, prompt)?;
        if tokens.len() < skip + 2 {
            return Err(Error::InvalidRequest(format!(
                "perplexity needs at least {} tokens, the text has {}",
                skip + 2,
                tokens.len()
            )));
        }
        let bos = if matches!(prompt, Prompt::Text(_)) { beginning(model) } else { None };
        Ok(TextWindows { tokens, bos, options: PerplexityOptions { context, stride, skip } })
    }

    /// All windows in order.
    pub fn all(&self) -> Vec<TextWindow> {
        let mut scored = 0;
        let one = |(start, end): (usize, usize)| {
            let first = self.options.skip.max(scored.max(start) - start).max(1);
            scored = end;
            let mut tokens = self.tokens[start..end].to_vec();
            tokens[0] = self.bos.unwrap_or(tokens[0]);
            TextWindow { tokens, first }
        };
        spans(self.tokens.len(), self.options.context, self.options.stride).into_iter().map(one).collect()
    }
}

/// Tokens of a text, or those that were given.
pub(crate) fn text_tokens(model: &Model, prompt: &Prompt) -> Result<Vec<u32>> {
    match prompt {
        Prompt::Tokens(tokens) => Ok(tokens.clone()),
        Prompt::Text(text) => model.tokenize(text, Special::ADD),
    }
}

/// The token that begins each window of a text.
fn beginning(model: &Model) -> Option<u32> {
    model.tokenizer().filter(|t| t.adds_bos()).and_then(Tokenizer::bos)
}

/// Start and end of each window; the last one may be shorter.
fn spans(tokens: usize, context: usize, stride: usize) -> Vec<(usize, usize)> {
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
        assert_eq!(spans(10, 4, 4), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!(spans(10, 6, 2), [(0, 6), (2, 8), (4, 10)]);
        assert_eq!(spans(3, 8, 8), [(0, 3)]);
    }
}
