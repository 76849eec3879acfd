//! Arguments from C, and places for results.

use crate::guard::{Result, invalid};
use std::{
    ffi::{CStr, c_char, c_void},
    ptr, slice,
};

/// A string with a zero byte at its end; none for NULL.
///
/// # Safety
/// It is NULL, or ends with a zero byte and stays as it is while the result is used.
pub unsafe fn string<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it ends with a zero byte, says the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|e| invalid(format!("{name} is no UTF-8: {e}")))
}

/// A string that must be there.
///
/// # Safety
/// As for [`string`].
pub unsafe fn need_string<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: as the caller says.
    unsafe { string(text, name) }?.ok_or_else(|| invalid(format!("{name} is NULL")))
}

/// Values in a row; none of them may be NULL.
///
/// # Safety
/// `first` is valid for `count` values, which stay as they are while the result is used.
pub unsafe fn list<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid(format!("{name} is NULL, but should have {count} values"))),
        // SAFETY: valid for so many values, says the caller.
        (false, _) => Ok(unsafe { slice::from_raw_parts(first, count) }),
    }
}

/// A text of `bytes` bytes.
///
/// # Safety
/// As for [`list`].
pub unsafe fn text<'a>(first: *const c_char, bytes: usize, name: &str) -> Result<&'a str> {
    // SAFETY: as the caller says.
    let bytes = unsafe { list(first.cast::<u8>(), bytes, name) }?;
    str::from_utf8(bytes).map_err(|e| invalid(format!("{name} is no UTF-8: {e}")))
}

/// A place for a result, which must be there before there is a result.
///
/// # Safety
/// It is NULL or may be written for as long as the place is used.
pub unsafe fn place<'a, T>(place: *mut T, name: &str) -> Result<OutPlace<'a, T>> {
    match place.is_null() {
        true => Err(invalid(format!("{name} is NULL: there is no place for the result"))),
        false => Ok(OutPlace(place, std::marker::PhantomData)),
    }
}

/// A place that may be written; what is in it is never read.
pub struct OutPlace<'a, T>(*mut T, std::marker::PhantomData<&'a mut T>);

impl<T> OutPlace<'_, T> {
    /// Writes the result.
    pub fn put(self, value: T) {
        // SAFETY: whoever made the place has said that it may be written.
        unsafe { self.0.write(value) };
    }
}

/// Writes as many values as fit, and how many there are.
///
/// # Safety
/// `out` may be written for `capacity` values.
pub unsafe fn fill<T: Copy>(
    values: &[T],
    out: *mut T,
    capacity: usize,
    count: OutPlace<'_, usize>,
) -> Result<()> {
    if out.is_null() && capacity > 0 {
        return Err(invalid(format!("out is NULL, but should have room for {capacity} values")));
    }
    let fitting = values.len().min(capacity);
    if fitting > 0 {
        // SAFETY: `out` has room for them, says the caller, and values of this library lie elsewhere.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), out, fitting) };
    }
    count.put(values.len());
    Ok(())
}

/// What a caller wants its own function to be called with.
#[derive(Clone, Copy)]
pub struct UserPointer(pub *mut c_void);

// SAFETY: the pointer is handed on and never followed; headers say on which threads a function is called.
unsafe impl Send for UserPointer {}
// SAFETY: as above: there is nothing in it to share.
unsafe impl Sync for UserPointer {}

impl UserPointer {
    /// The pointer.
    pub fn get(self) -> *mut c_void {
        self.0
    }
}
