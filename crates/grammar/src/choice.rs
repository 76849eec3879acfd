//! One of several strings.

use crate::error::{GrammarError, Result};
use crate::limits::{CHOICE_BYTES, CHOICES};
use crate::{lark, regex};

/// Lark of exactly these strings: one expression, so that a string may begin another.
pub(crate) fn lark(choices: &[&str]) -> Result<String> {
    let bytes: usize = choices.iter().map(|choice| choice.len()).sum();
    let too_large = |what: String, limit| GrammarError::too_large(what, limit, "use a pattern");
    if choices.is_empty() {
        return Err(GrammarError::broken("choice", "there is nothing to choose from"));
    }
    if choices.len() > CHOICES {
        return Err(too_large(format!("a choice of {} strings", choices.len()), CHOICES));
    }
    if bytes > CHOICE_BYTES {
        return Err(too_large(format!("a choice of {bytes} bytes"), CHOICE_BYTES));
    }
    let mut sorted = choices.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let all: Vec<String> = sorted.iter().map(|choice| regex::literal(choice)).collect();
    Ok(lark::of_regex(&all.join("|")))
}
