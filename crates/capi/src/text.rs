//! Tokens, templates, and strings that the caller frees.

use crate::{
    argument::{fill, list, need_string, place, text},
    guard::{LaminaStatus, guard, owned, quiet},
    model::{LaminaModel, MODELS},
};
use lamina::Special;
use std::ffi::{CString, c_char};

/// Frees a string of this library; NULL is nothing.
///
/// # Safety
/// It is a string that this library said is to be freed, and was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: made by `owned`, and freed once, says the caller.
        quiet(|| drop(unsafe { CString::from_raw(string) }));
    }
}

/// Writes at most `capacity` tokens of a text of `text_len` bytes to `out`, and to `count` how many there are: call it again
/// with more room where these are more. With `special`, special tokens in the text are read as such, and those that the model
/// expects around a text are added; without, the text is plain and nothing is added.
///
/// # Safety
/// `text` is valid for its bytes, `out` for its capacity, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_tokenize(
    model: *const LaminaModel,
    text: *const c_char,
    text_len: usize,
    special: bool,
    out: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the text is valid for its bytes and the place may be written, says the caller.
        let (text, count) = unsafe { (self::text(text, text_len, "text")?, place(count, "count")?) };
        let special = if special { Special::ADD_AND_PARSE } else { Special::NONE };
        let tokens = model.model().tokenize(text, special)?;
        // SAFETY: `out` may be written for its capacity, says the caller.
        unsafe { fill(&tokens, out, capacity, count) }?;
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// Writes at most `capacity` bytes of the text of tokens to `out`, and to `count` how many there are. The text is UTF-8, without
/// special tokens and without a zero byte at its end.
///
/// # Safety
/// `tokens` are valid for their number, `out` for its capacity, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_detokenize(
    model: *const LaminaModel,
    tokens: *const u32,
    token_count: usize,
    out: *mut c_char,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the tokens are valid and the place may be written, says the caller.
        let (tokens, count) = unsafe { (list(tokens, token_count, "tokens")?, place(count, "count")?) };
        let text = model.model().detokenize(tokens)?;
        // SAFETY: `out` may be written for its capacity, says the caller.
        unsafe { fill(text.as_bytes(), out.cast(), capacity, count) }?;
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// The text that a conversation becomes by the model's template: `request` has the fields of POST /apply-template, of which
/// `messages` must be there. Free `out` with `lamina_string_free`.
///
/// # Safety
/// `request` ends with a zero byte, and `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_chat_prompt(
    model: *const LaminaModel,
    request: *const c_char,
    out: *mut *mut c_char,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the string ends and the place may be written, says the caller.
        let (request, out) = unsafe { (need_string(request, "request")?, place(out, "out")?) };
        out.put(owned(&model.chat_prompt(request)?));
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}
