//! Embeddings, and scores of documents.

use crate::{
    argument::{fill, list, need_string, place, text},
    guard::{LaminaStatus, Result, guard},
    model::{LaminaModel, MODELS},
};
use lamina::Prompt;
use std::ffi::c_char;

/// Writes at most `capacity` numbers of the embedding of a text of `text_len` bytes to `out`, and to `count` how many there
/// are. The vector has the length 1, and is pooled as the model's makers do.
///
/// # Safety
/// `text` is valid for its bytes, `out` for its capacity, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_embed(
    model: *const LaminaModel,
    text: *const c_char,
    text_len: usize,
    out: *mut f32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the text is valid for its bytes and the place may be written, says the caller.
        let (text, count) = unsafe { (self::text(text, text_len, "text")?, place(count, "count")?) };
        let row = model.model().embed(&Prompt::Text(text.to_owned()), &mut || true)?;
        // SAFETY: `out` may be written for its capacity, says the caller.
        unsafe { fill(&row, out, capacity, count) }?;
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// Writes how well each of `document_count` documents answers the query, by a reranker: greater is better.
///
/// # Safety
/// Strings end with a zero byte; `documents` and `out` are valid for `document_count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_rerank(
    model: *const LaminaModel,
    query: *const c_char,
    documents: *const *const c_char,
    document_count: usize,
    out: *mut f32,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the string ends, says the caller.
        let query = unsafe { need_string(query, "query") }?;
        // SAFETY: the list is valid, says the caller.
        let documents = unsafe { list(documents, document_count, "documents") }?;
        let read = |(i, &text): (usize, &*const c_char)| {
            // SAFETY: the string ends, says the caller.
            unsafe { need_string(text, &format!("documents[{i}]")) }.map(str::to_owned)
        };
        let documents = documents.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        let scores = model.model().rerank(query, &documents, &mut || true)?;
        let mut count = 0;
        // SAFETY: `out` may be written for as many values as there are documents, says the caller; `count` is a variable.
        unsafe { fill(&scores, out, document_count, place(&mut count, "count")?) }?;
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}
