//! POST /infill: text between two others.

use super::completion::{Asked, answer};
use crate::{
    body::{FieldTable, taken},
    call::{HttpCall, pooled},
    error::ApiError,
};
use axum::response::Response;
use lamina::{Model, Special, Tokenizer};
use serde::Deserialize;

/// Fields of the body, beside those of completions.
pub const INFILL: FieldTable = FieldTable {
    name: "POST /infill",
    sampling: true,
    fields: &[
        taken("input_prefix", "text before the gap"),
        taken("input_suffix", "text behind the gap"),
        taken("input_extra", "other files: [{filename, text}]"),
        taken("prompt", "text behind the prefix, where the answer begins"),
        taken("model", "name of the model or of an adapter"),
        taken("n_predict", "tokens at most"),
        taken("max_tokens", "the same"),
        taken("stream", "the answer comes as it grows"),
        taken("post_sampling_probs", "false"),
        taken("return_tokens", "tokens of the answer"),
        taken("timings_per_token", "timings in every piece"),
        taken("response_fields", "paths of the fields that the answer has"),
        taken("t_max_predict_ms", "time after which the answer is cut"),
        taken("samplers", "names; those that are not listed are off"),
        taken("n_indent", "0: lines are not indented"),
        taken("return_progress", "false"),
    ],
};

#[derive(Deserialize)]
struct OtherFile {
    #[serde(default)]
    filename: String,
    text: String,
}

/// Texts of the tokens before, behind and at the gap, between files, by the families that have them.
const MARKS: &[[&str; 4]] = &[
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<file-sep>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", ""],
    [
        "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
        "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
        "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
        "",
    ],
    ["\u{2581}<PRE>", "\u{2581}<SUF>", "\u{2581}<MID>", ""],
    ["[PREFIX]", "[SUFFIX]", "[MIDDLE]", ""],
];

/// Tokens around a gap.
struct GapMarks {
    prefix: u32,
    suffix: u32,
    middle: u32,
    file: Option<u32>,
}

impl GapMarks {
    fn of(tokenizer: &Tokenizer) -> Option<GapMarks> {
        let id = |text: &str| tokenizer.token_to_id(text);
        MARKS.iter().find_map(|[prefix, suffix, middle, file]| {
            Some(GapMarks { prefix: id(prefix)?, suffix: id(suffix)?, middle: id(middle)?, file: id(file) })
        })
    }
}

/// The handler.
pub async fn infill(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&INFILL).await?;
    let lease = call.model(&mut body).await?;
    let [before, behind, begun] =
        ["input_prefix", "input_suffix", "prompt"].map(|name| body.take::<String>(name));
    let (before, behind, begun) =
        (before?.unwrap_or_default(), behind?.unwrap_or_default(), begun?.unwrap_or_default());
    let files: Vec<OtherFile> = body.take("input_extra")?.unwrap_or_default();
    let asked = Asked::read(&call, &mut body, &lease)?;
    call.ignore(&body);
    let model = lease.live.model.clone();
    let tokens = pooled(move || prompt(&model, &(before + &begun), &behind, &files)).await?;
    answer(&call, lease, vec![tokens], asked).await
}

/// Other files, the text before, the text behind, and the place where the answer begins.
fn prompt(model: &Model, before: &str, behind: &str, files: &[OtherFile]) -> Result<Vec<u32>, ApiError> {
    let tokenizer = model.need_tokenizer()?;
    let missing = || ApiError::unsupported("this model has no tokens for text between two others");
    let marks = GapMarks::of(tokenizer).ok_or_else(missing)?;
    let text = |text: &str| Ok::<_, ApiError>(model.tokenize(text, Special::NONE)?);
    let mut tokens: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.adds_bos()).into_iter().collect();
    for file in files {
        tokens.extend(marks.file);
        tokens.extend(text(&format!("{}\n{}", file.filename, file.text))?);
    }
    if !files.is_empty() {
        tokens.extend(marks.file);
    }
    tokens.push(marks.prefix);
    tokens.extend(text(before)?);
    tokens.push(marks.suffix);
    tokens.extend(text(behind)?);
    tokens.push(marks.middle);
    Ok(tokens)
}
