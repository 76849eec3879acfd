//! Reference-counted pages of one layer group, found again by what they hold.
//!
//! A page that nobody holds keeps its content until its memory is wanted; the one unused for longest goes first.

use super::content::Content;
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

#[derive(Clone, Default)]
struct Page {
    holders: u32,
    /// Content of a full page, once it is published.
    content: Option<Arc<Content>>,
    /// Key in `unused`, while nobody holds it.
    unused_at: u64,
}

/// All pages of a layer group.
pub struct Pages {
    count: usize,
    /// Those that were taken at least once: what is never used costs nothing here.
    pages: Vec<Page>,
    /// Page of a content, by the content's id.
    by_content: HashMap<u64, u32>,
    /// Pages of these without a holder, oldest first.
    unused: BTreeMap<u64, u32>,
    /// How many of the unused ones have a content.
    cached: usize,
    clock: u64,
}

impl Pages {
    /// `count` empty pages.
    pub fn new(count: usize) -> Pages {
        let (pages, by_content, unused) = Default::default();
        Pages { count, pages, by_content, unused, cached: 0, clock: 0 }
    }

    /// Pages in all.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when there are no pages at all.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Pages that can be taken.
    pub fn free(&self) -> usize {
        self.unused.len() + self.count - self.pages.len()
    }

    /// Of these, pages that can be found by their content.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// A page for writing, or none when all are held.
    pub fn take(&mut self) -> Option<u32> {
        if self.pages.len() < self.count {
            self.pages.push(Page { holders: 1, ..Page::default() });
            return Some(self.pages.len() as u32 - 1);
        }
        let (_, page) = self.unused.pop_first()?;
        self.cached -= usize::from(self.is_known(page));
        self.forget(page);
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    /// One more holder of `page`.
    pub fn hold(&mut self, page: u32) {
        let known = self.is_known(page);
        let p = &mut self.pages[page as usize];
        if p.holders == 0 {
            self.unused.remove(&p.unused_at);
            self.cached -= usize::from(known);
        }
        p.holders += 1;
    }

    /// One holder less. Without holders the page keeps its content until it is taken.
    pub fn release(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        debug_assert!(p.holders > 0, "page {page} is held");
        p.holders -= 1;
        if p.holders == 0 {
            self.put_aside(page);
        }
    }

    /// True when others hold the page too, so that it must be copied before it is written.
    pub fn shared(&self, page: u32) -> bool {
        self.pages[page as usize].holders > 1
    }

    /// Makes a full page known. If another page has the same content already, that one stays known.
    pub fn publish(&mut self, page: u32, content: &Arc<Content>) {
        if let Entry::Vacant(known) = self.by_content.entry(content.id) {
            known.insert(page);
            self.pages[page as usize].content = Some(content.clone());
        }
    }

    /// The page that holds `content`.
    pub fn find(&self, content: &Content) -> Option<u32> {
        self.by_content.get(&content.id).copied()
    }

    fn put_aside(&mut self, page: u32) {
        self.clock += 1;
        self.pages[page as usize].unused_at = self.clock;
        self.unused.insert(self.clock, page);
        self.cached += usize::from(self.is_known(page));
    }

    fn is_known(&self, page: u32) -> bool {
        self.pages[page as usize].content.is_some()
    }

    fn forget(&mut self, page: u32) {
        if let Some(content) = self.pages[page as usize].content.take() {
            self.by_content.remove(&content.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::content::{Contents, Namer, Past, sha256};

    #[test]
    fn a_content_is_found_until_its_memory_is_taken() {
        let mut contents = Contents::new(Namer::new(sha256, [0; 16]));
        let mut pages = Pages::new(3);
        let content = contents.intern([1; 16], &Past::Root([].into()), &[1, 2, 3][..].into());
        let (a, b) = (pages.take().expect("free"), pages.take().expect("free"));
        pages.publish(a, &content);
        pages.publish(b, &content);
        pages.release(b);
        pages.release(a);
        assert_eq!(pages.find(&content), Some(a), "the first one stays known");
        assert_eq!(pages.cached(), 1);
        pages.hold(a);
        assert_eq!(pages.cached(), 0, "a page that is held is not kept for later");
        pages.release(a);
        let taken: Vec<_> = std::iter::from_fn(|| pages.take()).collect();
        assert_eq!((taken.len(), pages.find(&content), pages.cached()), (3, None, 0));
    }

    #[test]
    fn shared_pages_are_told_and_freed_once() {
        let mut pages = Pages::new(1);
        let page = pages.take().expect("free");
        pages.hold(page);
        assert!(pages.shared(page));
        pages.release(page);
        assert!(!pages.shared(page) && pages.free() == 0);
        pages.release(page);
        assert_eq!(pages.free(), 1);
    }
}
