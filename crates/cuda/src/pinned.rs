//! Pinned memory of the host that somebody else has allocated.

use crate::sys;
use lamina_base::Bytes;

/// For copies of the context alone.
const PLAIN: u32 = 0;

/// Pins memory, for the current context; false where the driver refuses, as where a limit on locked memory is low or the
/// system's kernel cannot: copies from it then go through memory of the driver's own.
pub(crate) fn register(bytes: &Bytes) -> bool {
    let memory = bytes.as_ptr().cast_mut().cast();
    // SAFETY: a context is current. The memory is there: the caller keeps the bytes until they are unregistered. The device
    // only reads it.
    let done = unsafe { sys::cuMemHostRegister_v2(memory, bytes.len(), PLAIN) };
    done == sys::SUCCESS
}

/// Undoes [`register`], which was true for these bytes.
pub(crate) fn unregister(bytes: &Bytes) {
    // SAFETY: a context is current; the memory was registered once, and the caller has waited for copies from it. A driver
    // that has lost its device refuses, which changes nothing.
    let _ = unsafe { sys::cuMemHostUnregister(bytes.as_ptr().cast_mut().cast()) };
}
