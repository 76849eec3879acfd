//! Reference-counted pages with prefix reuse by hash.
//!
//! A full page is known by the hash of all tokens up to its end, so sequences with the same beginning share its page.
//! A page that nobody holds keeps its content until its memory is wanted; the one unused for longest goes first.

use lamina_plan::PAGE_LEN;
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
};

/// Hash of a full page: that of the page before it, and its own tokens.
pub fn page_hash(before: u64, tokens: &[u32]) -> u64 {
    let mut h = DefaultHasher::new();
    (before, tokens).hash(&mut h);
    h.finish()
}

#[derive(Clone, Default)]
struct Page {
    holders: u32,
    /// Hash and tokens of a full page; tokens are compared, so that a collision never gives a wrong answer.
    content: Option<(u64, u64, Box<[u32]>)>,
    /// Key in `unused`, while nobody holds it.
    unused_at: u64,
}

/// All pages of the cache.
pub struct Pages {
    pages: Vec<Page>,
    by_hash: HashMap<u64, u32>,
    /// Pages without holder, oldest first.
    unused: BTreeMap<u64, u32>,
    clock: u64,
}

impl Pages {
    /// `count` empty pages.
    pub fn new(count: usize) -> Pages {
        let mut pages = Pages {
            pages: vec![Page::default(); count],
            by_hash: HashMap::new(),
            unused: BTreeMap::new(),
            clock: 0,
        };
        (0..count as u32).for_each(|p| pages.put_aside(p));
        pages
    }

    /// Pages in all.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True when there are no pages at all.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Pages that can be taken.
    pub fn free(&self) -> usize {
        self.unused.len()
    }

    /// A page for writing, or none when all are held.
    pub fn take(&mut self) -> Option<u32> {
        let (_, page) = self.unused.pop_first()?;
        self.forget(page);
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    /// One more holder of `page`.
    pub fn hold(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        if p.holders == 0 {
            self.unused.remove(&p.unused_at);
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
    pub fn publish(&mut self, page: u32, before: u64, tokens: &[u32]) -> u64 {
        let hash = page_hash(before, tokens);
        if let Entry::Vacant(known) = self.by_hash.entry(hash) {
            known.insert(page);
            self.pages[page as usize].content = Some((hash, before, tokens.into()));
        }
        hash
    }

    /// The known pages of the longest beginning of `tokens`, each with one more holder, and their last hash.
    ///
    /// At most `limit` tokens are found: the last token of a prompt always has to be computed, since its row is needed.
    pub fn find(&mut self, salt: u64, tokens: &[u32], limit: usize) -> (Vec<u32>, Vec<u64>) {
        let (mut found, mut hashes) = (vec![], vec![]);
        let mut before = salt;
        for chunk in tokens[..limit.min(tokens.len())].chunks_exact(PAGE_LEN) {
            let hash = page_hash(before, chunk);
            let Some(&page) = self.by_hash.get(&hash) else { break };
            let same = matches!(&self.pages[page as usize].content, Some((_, b, t)) if *b == before && **t == *chunk);
            if !same {
                break;
            }
            self.hold(page);
            found.push(page);
            hashes.push(hash);
            before = hash;
        }
        (found, hashes)
    }

    fn put_aside(&mut self, page: u32) {
        self.clock += 1;
        self.pages[page as usize].unused_at = self.clock;
        self.unused.insert(self.clock, page);
    }

    fn forget(&mut self, page: u32) {
        if let Some((hash, ..)) = self.pages[page as usize].content.take() {
            self.by_hash.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: usize) -> Vec<u32> {
        (0..n as u32).collect()
    }

    #[test]
    fn a_beginning_is_found_until_its_memory_is_taken() {
        let mut pages = Pages::new(3);
        let all = tokens(2 * PAGE_LEN + 5);
        let (a, b) = (pages.take().expect("free"), pages.take().expect("free"));
        let first = pages.publish(a, 7, &all[..PAGE_LEN]);
        pages.publish(b, first, &all[PAGE_LEN..2 * PAGE_LEN]);
        pages.release(b);
        pages.release(a);
        assert_eq!(pages.find(7, &all, all.len() - 1).0, [a, b]);
        assert_eq!(pages.find(8, &all, all.len() - 1).0, [0u32; 0], "another salt finds nothing");
        pages.release(a);
        pages.release(b);
        let taken: Vec<_> = std::iter::from_fn(|| pages.take()).collect();
        assert_eq!(taken.len(), 3);
        assert!(pages.find(7, &all, all.len() - 1).0.is_empty());
    }

    #[test]
    fn the_last_token_is_never_found() {
        let mut pages = Pages::new(2);
        let all = tokens(PAGE_LEN);
        let page = pages.take().expect("free");
        pages.publish(page, 0, &all);
        assert!(pages.find(0, &all, all.len() - 1).0.is_empty());
        assert_eq!(pages.find(0, &tokens(PAGE_LEN + 1), PAGE_LEN).0, [page]);
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
