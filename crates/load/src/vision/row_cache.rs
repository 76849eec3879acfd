//! Rows of the pictures that were seen last.

use super::picture_rows::PictureRows;
use lamina_engine::Name;
use std::{collections::VecDeque, sync::Arc};

/// Rows of pictures, the last used ones first; the least recently used are evicted.
pub(super) struct RowCache {
    limit: u64,
    entries: VecDeque<(Name, Arc<PictureRows>)>,
    /// How often rows were looked for, and found.
    pub queries: u64,
    pub hits: u64,
}

impl RowCache {
    /// An empty cache of up to `limit` bytes.
    pub fn new(limit: u64) -> RowCache {
        RowCache { limit, entries: VecDeque::new(), queries: 0, hits: 0 }
    }

    /// The rows of a picture.
    pub fn get(&mut self, id: &Name) -> Option<Arc<PictureRows>> {
        self.queries += 1;
        let at = self.entries.iter().position(|(known, _)| known == id)?;
        self.hits += 1;
        let entry = self.entries.remove(at)?;
        let rows = entry.1.clone();
        self.entries.push_front(entry);
        Some(rows)
    }

    /// Keeps the rows of a picture, as long as there is room.
    pub fn put(&mut self, id: Name, rows: Arc<PictureRows>) {
        self.entries.retain(|(known, _)| *known != id);
        self.entries.push_front((id, rows));
        while self.bytes() > self.limit {
            self.entries.pop_back();
        }
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|(_, rows)| rows.bytes()).sum()
    }
}
