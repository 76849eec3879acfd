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

    /// All windows in order, each cut when it is asked for: with a short stride together they are many times the text.
    pub fn all(&self) -> impl ExactSizeIterator<Item = TextWindow> {
        let PerplexityOptions { context, stride, skip } = self.options;
        let mut scored = 0;
        spans(self.tokens.len(), context, stride).map(move |(start, end)| {
            let first = skip.max(scored.max(start) - start).max(1);
            scored = end;
            let mut tokens = self.tokens[start..end].to_vec();
            tokens[0] = self.bos.unwrap_or(tokens[0]);
            TextWindow { tokens, first }
        })
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

/// Start and end of each window; the last one may be shorter, but has two tokens at least.
fn spans(tokens: usize, context: usize, stride: usize) -> impl ExactSizeIterator<Item = (usize, usize)> {
    let last = tokens.saturating_sub(context).div_ceil(stride);
    let alone = tokens.saturating_sub(last * stride) < 2;
    (0..last + usize::from(!alone)).map(move |i| (i * stride, (i * stride + context).min(tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_token() {
        let all = |tokens, context, stride| spans(tokens, context, stride).collect::<Vec<_>>();
        assert_eq!(all(10, 4, 4), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!(all(9, 4, 4), [(0, 4), (4, 8)], "nothing stands before a token alone");
        assert_eq!(all(8, 4, 4), [(0, 4), (4, 8)]);
        assert_eq!(all(10, 6, 2), [(0, 6), (2, 8), (4, 10)]);
        assert_eq!(all(3, 8, 8), [(0, 3)]);
        assert_eq!(all(1, 8, 8), []);
        assert_eq!(all(0, 8, 8), []);
    }

    #[test]
    fn windows_are_cut_when_they_are_asked_for() {
        let options = PerplexityOptions { context: 1 << 19, stride: 1, skip: 0 };
        let text = TextWindows { tokens: vec![7; 1 << 20], bos: Some(1), options };
        let mut windows = text.all();
        // A terabyte together.
        assert_eq!(windows.len(), (1 << 19) + 1);
        let (one, two) = (windows.next().unwrap(), windows.next().unwrap());
        assert_eq!((one.tokens.len(), one.tokens[..2].to_vec(), one.first), (1 << 19, vec![1, 7], 1));
        assert_eq!((two.tokens.len(), two.first), (1 << 19, (1 << 19) - 1));
    }
}
