//! Rows of the pictures or sounds that were met last.

use super::sense::Sense;
use lamina_engine::Name;
use std::{collections::VecDeque, sync::Arc};

/// Rows by names, the last used ones first; the least recently used are evicted.
pub(super) struct RowCache<S: Sense> {
    limit: u64,
    entries: VecDeque<(Name, Arc<S::Rows>)>,
    /// How often rows were looked for, and found.
    pub queries: u64,
    pub hits: u64,
}

impl<S: Sense> RowCache<S> {
    /// An empty cache of up to `limit` bytes.
    pub fn new(limit: u64) -> RowCache<S> {
        RowCache { limit, entries: VecDeque::new(), queries: 0, hits: 0 }
    }

    /// The rows of a name.
    pub fn get(&mut self, id: &Name) -> Option<Arc<S::Rows>> {
        self.queries += 1;
        let at = self.entries.iter().position(|(known, _)| known == id)?;
        self.hits += 1;
        let entry = self.entries.remove(at)?;
        let rows = entry.1.clone();
        self.entries.push_front(entry);
        Some(rows)
    }

    /// Keeps rows, as long as there is room.
    pub fn put(&mut self, id: Name, rows: Arc<S::Rows>) {
        self.entries.retain(|(known, _)| *known != id);
        self.entries.push_front((id, rows));
        while self.bytes() > self.limit {
            self.entries.pop_back();
        }
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|(_, rows)| S::bytes(rows)).sum()
    }
}
