//! How far a model's probabilities are from those of its base, over a text: what quantizers publish.

mod figures;
mod likeliest;
mod norm;
mod token;

pub use figures::{DivergenceFigures, Estimate};
pub use token::TokenDivergence;

use crate::windows::{PerplexityOptions, TextWindow, TextWindows, text_tokens};
use lamina::{Error, Model, Prompt, Result, Rows};
use likeliest::{LikeliestRow, LogitsReader, LogitsWriter};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// Both models' view of each token of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// Tokens in the order of the text, those that were scored.
    pub tokens: Vec<TokenDivergence>,
    /// How much higher the mean KL divergence may be at most, or lower, by what a file of the base's logits left out; 0 when
    /// both models' rows were compared whole.
    pub kl_bound: f64,
}

/// Told windows done and in all; gives up by returning false.
pub type WindowProgress<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

/// Compares both models window by window: the rows of one window of the base are held, those of the model are compared as
/// they come. Windows are those of [`perplexity`](crate::perplexity()).
///
/// # Errors
/// When the models do not share their tokens, the windows are wrong, there is no memory for the base's rows, or a model fails.
pub fn divergence(
    base: &Model,
    model: &Model,
    prompt: &Prompt,
    options: PerplexityOptions,
    progress: WindowProgress<'_>,
) -> Result<Divergence> {
    same_tokens(base, model, prompt)?;
    let held = base.info().context.min(model.info().context);
    let options = shrunk(options, held);
    let vocab = base.info().vocab;
    let windows = TextWindows::new(base, prompt, options)?;
    over_windows(&windows, progress, |window, keep| {
        let rows = base.rows(&window.tokens, Rows::Logits, keep)?;
        compare(model, window, keep, move |place, row, token| {
            (token::whole_rows(&rows[place * vocab..(place + 1) * vocab], row, token), 0.0)
        })
    })
}

/// Writes what [`divergence_from`] needs of the base: for bases that do not fit into memory beside the model.
///
/// # Errors
/// When the windows are wrong, the base fails, or the disk refuses.
pub fn write_logits(
    base: &Model,
    prompt: &Prompt,
    options: PerplexityOptions,
    path: &Path,
    progress: WindowProgress<'_>,
) -> Result<()> {
    let (windows, vocab) = (TextWindows::new(base, prompt, options)?, base.info().vocab);
    let mut out = LogitsWriter::create(path, &windows, vocab)?;
    over_windows(&windows, progress, |TextWindow { tokens, first }, keep| {
        let rows = base.rows(&tokens, Rows::Logits, keep)?;
        for (row, &token) in rows.chunks_exact(vocab).zip(&tokens[1..]).skip(first - 1) {
            out.row(&LikeliestRow::of(row, token))?;
        }
        Ok(vec![])
    })?;
    out.finish()
}

/// Compares a model with the base's logits in a file; `prompt` is held against the text that they are of.
///
/// # Errors
/// When the file is none or of another vocabulary or text, or the model fails.
pub fn divergence_from(
    path: &Path,
    model: &Model,
    prompt: Option<&Prompt>,
    progress: WindowProgress<'_>,
) -> Result<Divergence> {
    let mut reader = LogitsReader::open(path)?;
    let wrong = |problem: String| Err(Error::InvalidRequest(format!("{}: {problem}", path.display())));
    if reader.vocab() != model.info().vocab {
        return wrong(format!(
            "its base has {} tokens, the model has {}: they are not of one family",
            reader.vocab(),
            model.info().vocab
        ));
    }
    if prompt.map(|p| text_tokens(model, p)).transpose()?.is_some_and(|t| t != reader.windows.tokens) {
        return wrong("its logits are of another text or of other tokens: write it again with --base".into());
    }
    let context = reader.windows.options.context;
    if model.info().context < context {
        return wrong(format!("its windows have {context} tokens, the model holds {}", model.info().context));
    }
    let windows = reader.windows.clone();
    over_windows(&windows, progress, |window, keep| {
        let first = window.first;
        let rows = (first..window.tokens.len()).map(|_| reader.row()).collect::<Result<Vec<_>>>()?;
        compare(model, window, keep, move |place, row, token| {
            token::likeliest_row(&rows[place + 1 - first], row, token)
        })
    })
}

fn shrunk(options: PerplexityOptions, held: usize) -> PerplexityOptions {
    match held < options.context {
        true => PerplexityOptions { context: held, stride: options.stride.min(held), ..options },
        false => options,
    }
}

fn same_tokens(base: &Model, model: &Model, prompt: &Prompt) -> Result<()> {
    let (a, b) = (base.info().vocab, model.info().vocab);
    if a != b {
        let text =
            format!("the base has {a} tokens and the model {b}: their probabilities cannot be compared");
        return Err(Error::InvalidRequest(text));
    }
    if text_tokens(base, prompt)? != text_tokens(model, prompt)? {
        let text = "the base and the model make different tokens of the text: they are not of one family";
        return Err(Error::InvalidRequest(text.into()));
    }
    Ok(())
}

/// Tokens of all windows, with how much each may be off.
type Compared = Vec<(TokenDivergence, f64)>;

fn over_windows(
    windows: &TextWindows,
    progress: WindowProgress<'_>,
    mut one: impl FnMut(TextWindow, &mut dyn FnMut() -> bool) -> Result<Compared>,
) -> Result<Divergence> {
    let (mut tokens, mut off, windows) = (vec![], 0.0, windows.all());
    let all = windows.len();
    for (i, window) in windows.enumerate() {
        for (token, bound) in one(window, &mut || progress(i, all))? {
            tokens.push(token);
            off += bound;
        }
        if !progress(i + 1, all) {
            return Err(Error::Runtime("the comparison was cancelled".into()));
        }
    }
    let kl_bound = off / tokens.len().max(1) as f64;
    Ok(Divergence { tokens, kl_bound })
}

/// Runs the model over a window; `row` compares the row of a place with the base's, and is told the token that follows.
fn compare(
    model: &Model,
    TextWindow { tokens, first }: TextWindow,
    keep: &mut dyn FnMut() -> bool,
    mut row: impl FnMut(usize, &[f32], u32) -> (TokenDivergence, f64) + Send + 'static,
) -> Result<Compared> {
    let found = Arc::new(Mutex::new(vec![]));
    let (all, targets, vocab) = (found.clone(), tokens.clone(), model.info().vocab);
    let sink = move |start: usize, rows: &[f32]| {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, logits) in rows.chunks_exact(vocab).enumerate() {
            let place = start + i;
            if let Some(&token) = targets.get(place + 1).filter(|_| place + 1 >= first) {
                all.push(row(place, logits, token));
            }
        }
    };
    model.pass(tokens, None, Box::new(sink), keep)?;
    Ok(std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner)))
}
