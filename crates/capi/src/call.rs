//! Endpoints of the server, without a socket.

use crate::{
    argument::{UserPointer, need_string, string},
    guard::{LaminaStatus, guard, invalid},
    model::{LaminaModel, MODELS},
};
use std::ffi::{c_char, c_void};

/// Given a piece of a response; false ends it. Called on the thread that called `lamina_call`.
pub type LaminaSink =
    Option<unsafe extern "C" fn(bytes: *const c_char, count: usize, user: *mut c_void) -> bool>;

/// Calls an endpoint of the server without a socket, such as `POST /v1/embeddings`, with a body or NULL, and hands the response
/// to `sink` piece by piece: docs/serving.md has them. What the endpoint refuses is an error with its message.
///
/// # Safety
/// Strings end with a zero byte; `sink` may be called with `user` until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_call(
    model: *const LaminaModel,
    endpoint: *const c_char,
    body: *const c_char,
    sink: LaminaSink,
    user: *mut c_void,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: strings end, says the caller.
        let (endpoint, body) = unsafe { (need_string(endpoint, "endpoint")?, string(body, "body")?) };
        let sink = sink.ok_or_else(|| invalid("sink is NULL: there is nobody to take the response"))?;
        let user = UserPointer(user);
        // SAFETY: the caller gave the function and what it wants to be called with; the bytes live until it returns.
        let mut give = |bytes: &[u8]| unsafe { sink(bytes.as_ptr().cast(), bytes.len(), user.get()) };
        model.call(endpoint, body, &mut give)?;
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}
