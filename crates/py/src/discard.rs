//! The end of what holds an engine, where Python drops it.

use lamina_reserve::trim;
use pyo3::Python;
use std::{
    mem, process,
    sync::{Arc, Mutex, PoisonError},
};

/// Drops what a watch may still look at; see [`discard`].
pub fn discard_shared<T: Send>(owner: u32, held: &Arc<Mutex<Option<T>>>) {
    // In a fork the lock may be held by a thread that is not there.
    if owner != process::id() {
        return mem::forget(held.clone());
    }
    let taken = held.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken.into_iter().for_each(|held| discard(owner, held));
}

/// Drops `held`, which belongs to process `owner`, without the interpreter's lock: to drop the last handle of a model
/// joins its engine, which finishes a step first, and other threads of Python go on meanwhile.
pub fn discard<T: Send>(owner: u32, held: T) {
    // A fork has no engine thread: to join it there, or to take a lock that it held, would never end.
    if owner != process::id() {
        return mem::forget(held);
    }
    let end = || {
        drop(held);
        trim();
    };
    // None while the interpreter itself ends: then nobody waits for its lock.
    let mut end = Some(end);
    Python::try_attach(|py| py.detach(|| end.take().map(|end| end())));
    if let Some(end) = end {
        end();
    }
}
