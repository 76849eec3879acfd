//! A text with a gap as a prompt.

use super::{HttpCall, pooled};
use crate::{error::ApiError, models::Lease};
use lamina::{Model, Special};
use serde::{Deserialize, de::IgnoredAny};

/// A text with a gap, which the answer fills.
#[derive(Debug, Default)]
pub struct GapText {
    /// Text before the gap.
    pub before: String,
    /// Text behind it.
    pub behind: String,
    /// Other files that belong to it.
    pub files: Vec<OtherFile>,
}

/// A file beside the one with the gap.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherFile {
    #[serde(default)]
    filename: String,
    text: String,
    /// When the editor took it up, which it sends along.
    #[serde(default, rename = "time")]
    _time: IgnoredAny,
}

impl HttpCall {
    /// Tokens of a text with a gap.
    ///
    /// # Errors
    /// When the model has no tokens for gaps.
    pub async fn infill(&self, lease: &Lease, gap: GapText) -> Result<Vec<u32>, ApiError> {
        if self.app.options.log_prompts {
            self.log.entry().prompt = Some(format!("{}\u{2026}{}", gap.before, gap.behind));
        }
        let files = gap.files.iter().map(|file| file.text.len()).sum::<usize>();
        self.text_room(lease).check(gap.before.len() + gap.behind.len() + files)?;
        let model = lease.live.model.clone();
        pooled(move || prompt(&model, &gap)).await
    }
}

/// Other files, the text before, the text behind, and the place where the answer begins.
fn prompt(model: &Model, gap: &GapText) -> Result<Vec<u32>, ApiError> {
    let tokenizer = model.need_tokenizer()?;
    let missing = || ApiError::unsupported("this model has no tokens for text between two others");
    let marks = tokenizer.infill_marks().ok_or_else(missing)?;
    let text = |text: &str| Ok::<_, ApiError>(model.tokenize(text, Special::NONE)?);
    let mut tokens: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.adds_bos()).into_iter().collect();
    for file in &gap.files {
        tokens.extend(marks.file);
        tokens.extend(text(&format!("{}\n{}", file.filename, file.text))?);
    }
    if !gap.files.is_empty() {
        tokens.extend(marks.file);
    }
    tokens.push(marks.prefix);
    tokens.extend(text(&gap.before)?);
    tokens.push(marks.suffix);
    tokens.extend(text(&gap.behind)?);
    tokens.push(marks.middle);
    Ok(tokens)
}
