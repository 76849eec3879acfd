//! A stack of its own for compiling and rendering: no depth of a template within the limits overflows it, whatever
//! thread asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

use crate::error::ChatError;

/// Bytes of address space; what is not touched takes no memory. Room for the drop of the longest chain of lists that
/// [`super::meter`] allows.
pub(super) const SIZE: usize = 128 << 20;

/// Bytes that a thread takes beside its stack.
const BESIDE: usize = 4 << 20;

/// Runs on a thread with a large stack and waits for it.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ChatError> {
    // A thread that gets its stack and nothing beside it ends the process.
    if !lamina_reserve::affordable(SIZE + BESIDE) {
        return Err(ChatError::NoStack { bytes: SIZE });
    }
    // The engine panics where it did not think of a case. Rendering changes nothing that outlives it, so it is safe
    // to go on.
    let caught = || catch_unwind(AssertUnwindSafe(work));
    std::thread::scope(|scope| {
        let thread = Builder::new().name("lamina-chat".into()).stack_size(SIZE);
        let thread = thread.spawn_scoped(scope, caught).map_err(|_| ChatError::NoStack { bytes: SIZE })?;
        match thread.join() {
            Ok(Ok(result)) => Ok(result),
            _ => Err(ChatError::Failed("the engine gave up on it".into())),
        }
    })
}
