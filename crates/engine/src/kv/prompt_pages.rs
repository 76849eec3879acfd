//! Names of a prompt's full pages, and what a store on disk has of them: looked up before the engine's thread is asked.

use super::{cache_part::CachePart, content::Name};
use lamina_disk::PageStore;
use std::collections::HashSet;

/// Names of a prompt's full pages, as far as they were made beforehand.
#[derive(Debug, Default)]
pub struct PromptPages {
    /// In order.
    pub names: Vec<Name>,
    /// What was on disk then, by page.
    on_disk: HashSet<(usize, CachePart)>,
}

impl PromptPages {
    /// Pages called `names`.
    pub fn new(names: Vec<Name>) -> PromptPages {
        PromptPages { names, on_disk: HashSet::new() }
    }

    /// Notes which of `parts` of each page are in `store`.
    pub fn look_up(&mut self, store: &PageStore, parts: &[CachePart]) {
        for (page, name) in self.names.iter().enumerate() {
            let there = parts.iter().filter(|part| store.contains(&part.key(name)));
            self.on_disk.extend(there.map(|&part| (page, part)));
        }
    }

    /// True when a part of a page was on disk.
    pub fn is_on_disk(&self, page: usize, part: CachePart) -> bool {
        self.on_disk.contains(&(page, part))
    }

    /// True when anything was.
    pub fn are_on_disk(&self) -> bool {
        !self.on_disk.is_empty()
    }
}
