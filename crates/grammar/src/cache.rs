//! Compiled grammars of one vocabulary, least recently used evicted first.

use std::sync::{Arc, Mutex};

use llguidance::Matcher as Library;

use crate::limits::{CACHED_BYTES, CACHED_GRAMMARS};
use crate::lowered::Lowered;

/// A grammar compiled for one vocabulary, before the first token. Shared; each text gets a deep copy, so that no answer
/// sees the lexer states of another (their number is limited, and must not depend on who else runs).
pub(crate) struct Compiled(Mutex<Library>);

impl Compiled {
    pub fn new(library: Library) -> Compiled {
        Compiled(Mutex::new(library))
    }

    /// A copy of its own.
    pub fn library(&self) -> Library {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).deep_clone()
    }
}

/// Compiled grammars, the most recently used last.
#[derive(Default)]
pub(crate) struct CompiledCache(Vec<(Arc<Lowered>, Arc<Compiled>)>);

impl CompiledCache {
    /// The compiled form of `lowered`, if it is here.
    pub fn get(&mut self, lowered: &Arc<Lowered>) -> Option<Arc<Compiled>> {
        let found = self.0.iter().position(|(p, _)| Arc::ptr_eq(p, lowered) || p == lowered)?;
        let entry = self.0.remove(found);
        let compiled = entry.1.clone();
        self.0.push(entry);
        Some(compiled)
    }

    pub fn insert(&mut self, lowered: Arc<Lowered>, compiled: Arc<Compiled>) {
        self.0.push((lowered, compiled));
        let bytes = |entries: &[(Arc<Lowered>, Arc<Compiled>)]| {
            entries.iter().map(|(lowered, _)| lowered.bytes()).sum::<usize>()
        };
        // The newest always stays.
        while self.0.len() > CACHED_GRAMMARS || (self.0.len() > 1 && bytes(&self.0) > CACHED_BYTES) {
            self.0.remove(0);
        }
    }
}
