//! The border: errors and panics become a status and a message that the caller frees.

use lamina::Error;
use std::{
    any::Any,
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

/// What a call came to. Numbers never change their meaning.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaminaStatus {
    /// Done; of a request: an event was written.
    Ok = 0,
    /// Of a request: no event came in time.
    Timeout = 1,
    /// Of a request: all answers have ended.
    End = 2,
    /// There is no model at the path.
    Model = 10,
    /// A file is broken.
    Format = 11,
    /// The model, type or device is not supported.
    Unsupported = 12,
    /// Memory does not suffice.
    OutOfMemory = 13,
    /// The device is gone: the model has to be loaded again.
    DeviceLost = 14,
    /// An argument, a field or a handle is wrong.
    InvalidRequest = 15,
    /// Something else failed.
    Runtime = 16,
    /// A fault inside Lamina: the call was stopped.
    Panic = 17,
}

/// What ends a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal of an argument.
pub fn invalid(what: impl Into<String>) -> Error {
    Error::InvalidRequest(what.into())
}

/// A string that the caller frees; of a text with zero bytes what is before the first one.
pub fn owned(text: &str) -> *mut c_char {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).map_or(ptr::null_mut(), CString::into_raw)
}

/// Runs a call, and writes the message of its error where the caller has a place for it.
///
/// # Safety
/// `error` is NULL or may be written.
pub unsafe fn guard(error: *mut *mut c_char, call: impl FnOnce() -> Result<LaminaStatus>) -> LaminaStatus {
    // Models and requests guard their state with locks that survive a poisoning: nothing half done is seen afterwards.
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => return status,
        Ok(Err(error)) => (status(&error), error.to_string()),
        Err(cause) => {
            let why = format!("a fault inside Lamina, please report it: {}", cause_text(&*cause));
            (LaminaStatus::Panic, why)
        }
    };
    if !error.is_null() {
        // SAFETY: not NULL, so it may be written, says the caller.
        unsafe { error.write(owned(&message)) };
    }
    status
}

/// A call that cannot fail but by a fault, which then makes no difference.
pub fn quiet<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

fn status(error: &Error) -> LaminaStatus {
    match error {
        Error::Model(_) => LaminaStatus::Model,
        Error::Format(_) => LaminaStatus::Format,
        Error::Unsupported(_) => LaminaStatus::Unsupported,
        Error::OutOfMemory(_) => LaminaStatus::OutOfMemory,
        Error::DeviceLost(_) => LaminaStatus::DeviceLost,
        Error::InvalidRequest(_) => LaminaStatus::InvalidRequest,
        Error::Runtime(_) => LaminaStatus::Runtime,
    }
}

fn cause_text(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<&str>().copied();
    text.or_else(|| cause.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_is_a_status_with_its_message() {
        let mut message = ptr::null_mut();
        // SAFETY: the place is a variable.
        let status = unsafe { guard(&mut message, || panic!("of {}", 7)) };
        // SAFETY: the panic has written a string.
        let text = unsafe { CStr::from_ptr(message) }.to_str().expect("text").to_owned();
        assert_eq!((status, text.ends_with("of 7")), (LaminaStatus::Panic, true), "{text}");
        // SAFETY: the string is this library's, and is freed once.
        drop(unsafe { CString::from_raw(message) });
    }
}
