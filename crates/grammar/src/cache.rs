//! Compiled grammars of one vocabulary, least recently used evicted first.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
};

use llguidance::Matcher as Library;

use crate::limits::{CACHED_BYTES, CACHED_GRAMMARS};
use crate::lowered::Lowered;

/// A grammar compiled for one vocabulary, before the first token. Shared; each text gets a deep copy, so that no answer
/// sees the lexer states of another (their number is limited, and must not depend on who else runs).
pub(crate) struct Compiled {
    library: Mutex<Library>,
    /// What it takes in memory, roughly.
    bytes: usize,
}

impl Compiled {
    pub fn new(library: Library, bytes: usize) -> Compiled {
        Compiled { library: Mutex::new(library), bytes }
    }

    /// A copy of its own.
    pub fn library(&self) -> Library {
        self.library.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).deep_clone()
    }
}

/// Compiled grammars, the most recently used last.
#[derive(Default)]
pub(crate) struct CompiledCache {
    entries: Vec<CachedGrammar>,
    hasher: RandomState,
}

struct CachedGrammar {
    /// Of the source: to compare two schemas takes as long as to read one.
    hash: u64,
    lowered: Arc<Lowered>,
    compiled: Arc<Compiled>,
}

impl CompiledCache {
    /// The compiled form of `lowered`, made from `source`, if it is here.
    pub fn get(&mut self, source: &str, lowered: &Arc<Lowered>) -> Option<Arc<Compiled>> {
        let hash = self.hasher.hash_one(source);
        let is_same =
            |e: &CachedGrammar| e.hash == hash && (Arc::ptr_eq(&e.lowered, lowered) || e.lowered == *lowered);
        let found = self.entries.iter().position(is_same)?;
        let entry = self.entries.remove(found);
        let compiled = entry.compiled.clone();
        self.entries.push(entry);
        Some(compiled)
    }

    pub fn insert(&mut self, source: &str, lowered: Arc<Lowered>, compiled: Arc<Compiled>) {
        self.entries.push(CachedGrammar { hash: self.hasher.hash_one(source), lowered, compiled });
        let bytes = |entries: &[CachedGrammar]| entries.iter().map(|e| e.compiled.bytes).sum::<usize>();
        // The newest always stays.
        while self.entries.len() > CACHED_GRAMMARS
            || (self.entries.len() > 1 && bytes(&self.entries) > CACHED_BYTES)
        {
            self.entries.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, SchemaOptions, Vocabulary, compile::compile};
    use serde_json::json;

    #[test]
    fn the_least_used_go_where_bytes_are_many() {
        let vocabulary = Vocabulary::bytes().expect("a vocabulary");
        let mut cache = CompiledCache::default();
        let made = |n: usize| {
            let schema =
                json!({ "type": "object", "properties": { format!("key{n}"): { "type": "string" } } });
            let grammar = Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema");
            let lowered = grammar.lowered();
            let library = compile(&lowered, None, &vocabulary).expect("a grammar").library();
            (lowered, library)
        };
        let (first, library) = made(0);
        cache.insert("first", first.clone(), Arc::new(Compiled::new(library, CACHED_BYTES / 3)));
        let (second, library) = made(1);
        cache.insert("second", second.clone(), Arc::new(Compiled::new(library, CACHED_BYTES / 3)));
        assert!(cache.get("first", &first).is_some());
        let (third, library) = made(2);
        cache.insert("third", third.clone(), Arc::new(Compiled::new(library, CACHED_BYTES / 2)));
        assert!(cache.get("second", &second).is_none(), "the one that was used last is the first");
        assert!(cache.get("first", &first).is_some() && cache.get("third", &third).is_some());
    }
}
