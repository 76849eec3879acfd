//! What the last few requests needed and the next ones may need again.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Values by their keys, the newest first; the least recently used are evicted.
pub(crate) struct Recent<K, V>(Mutex<VecDeque<(K, V)>>);

/// As many as a few front ends with settings of their own use.
const MOST: usize = 8;

impl<K: PartialEq, V: Clone> Recent<K, V> {
    /// The value of a key, if it is known.
    pub fn get<Q: PartialEq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(known, _)| known.borrow() == key)?;
        let entry = entries.remove(at)?;
        let found = entry.1.clone();
        entries.push_front(entry);
        Some(found)
    }

    /// Keeps a value, which was made beside the lock: other requests go on meanwhile.
    pub fn put(&self, key: K, value: V) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.truncate(MOST - 1);
        entries.push_front((key, value));
    }
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent(Mutex::default())
    }
}
