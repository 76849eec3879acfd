//! Handles: numbers in the form of pointers, which a table knows while they live. None is given twice, so one that was freed is
//! refused like one that never was, and what a call still works with stays until it is done.

use crate::guard::{Result, invalid};
use std::{
    collections::BTreeMap,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Distance of handles: as if each were an address of an aligned object. Below the first one lie no objects.
const APART: usize = 16;
/// The next handle of all tables, so that one of another kind is none.
static NEXT: AtomicUsize = AtomicUsize::new(4096);

/// What handles of one kind stand for.
pub struct HandleTable<T> {
    name: &'static str,
    live: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> HandleTable<T> {
    /// A table without handles, whose kind errors call `name`.
    pub const fn new(name: &'static str) -> HandleTable<T> {
        HandleTable { name, live: Mutex::new(BTreeMap::new()) }
    }

    /// A new handle.
    pub fn insert<H>(&self, value: Arc<T>) -> *mut H {
        let number = NEXT.fetch_add(APART, Ordering::Relaxed);
        self.lock().insert(number, value);
        ptr::without_provenance_mut(number)
    }

    /// What a handle stands for.
    ///
    /// # Errors
    /// When it is NULL, was freed, or is none of this kind.
    pub fn get<H>(&self, handle: *const H) -> Result<Arc<T>> {
        let found = self.lock().get(&handle.addr()).cloned();
        found.ok_or_else(|| match handle.is_null() {
            true => invalid(format!("the {} is NULL", self.name)),
            false => invalid(format!("this is no handle of a {}, or it was freed", self.name)),
        })
    }

    /// Ends a handle; none where it is none.
    pub fn remove<H>(&self, handle: *mut H) -> Option<Arc<T>> {
        self.lock().remove(&handle.addr())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_and_foreign_handles_are_refused() {
        let (letters, numbers) = (HandleTable::new("letter"), HandleTable::new("number"));
        let (a, one) = (letters.insert::<u8>(Arc::new('a')), numbers.insert::<u8>(Arc::new(1)));
        let message = |e: Result<Arc<char>>| e.map_err(|e| e.to_string()).unwrap_err();
        let kept = letters.get(a).expect("a handle");
        assert_eq!(message(letters.get(one)), "this is no handle of a letter, or it was freed");
        assert_eq!(message(letters.get(ptr::null::<u8>())), "the letter is NULL");
        assert_eq!(letters.remove(a).as_deref(), Some(&'a'));
        assert_eq!((letters.remove(a), *kept), (None, 'a'));
        assert!(letters.get(a).is_err() && numbers.get(one).is_ok());
        assert_ne!(letters.insert::<u8>(Arc::new('b')), a, "no handle is given twice");
    }
}
