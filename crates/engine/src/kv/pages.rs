//! Reference-counted pages of one layer group, found again by what they hold.
//!
//! A page that nobody holds keeps its content until its memory is wanted; the one unused for longest goes first. Pages
//! without a content go before all of them, so that what is taken for a step and given back evicts nothing twice.

use super::content::Content;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

#[derive(Clone, Default)]
struct Page {
    holders: u32,
    /// Content of a full page, once it is published.
    content: Option<Arc<Content>>,
    /// Key in `unused`, while nobody holds it.
    unused_at: u64,
    /// Key in `unsaved`, while it has a content that was not handed to a store.
    unsaved_at: Option<u64>,
}

/// All pages of a layer group.
#[derive(Default)]
pub struct Pages {
    count: usize,
    /// Those that were taken at least once: what is never used costs nothing here.
    pages: Vec<Page>,
    /// Page of a content, by the content's id.
    by_content: HashMap<u64, u32>,
    /// Those without a holder and without a content.
    blank: Vec<u32>,
    /// Pages with a content and without a holder, oldest first.
    unused: BTreeMap<u64, u32>,
    clock: u64,
    /// Contents go to a store on disk.
    saves: bool,
    /// Pages whose contents were not handed to it, by the order of publishing.
    unsaved: BTreeMap<u64, u32>,
    /// Contents of such pages that were taken since the last look: until they are written to, they hold them.
    evicted: Vec<(u32, Arc<Content>)>,
    /// Contents that preempted sequences wait for, by their ids.
    awaited: HashSet<u64>,
    /// Of these, contents whose pages were taken since the last look.
    swapped: Vec<(u32, Arc<Content>)>,
}

impl Pages {
    /// `count` empty pages.
    pub fn new(count: usize) -> Pages {
        Pages { count, ..Pages::default() }
    }

    /// From now on, contents are told that a store on disk has to get.
    pub fn save(&mut self) {
        self.saves = true;
    }

    /// True where a store has to get a content.
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// The next content that a store has to get, with its page; it counts as saved from now on.
    pub fn next_unsaved(&mut self) -> Option<(u32, Arc<Content>)> {
        let (_, page) = self.unsaved.pop_first()?;
        let p = &mut self.pages[page as usize];
        p.unsaved_at = None;
        p.content.clone().map(|content| (page, content))
    }

    /// Contents that a store has not got and whose pages were taken since the last call. Nothing was written to these
    /// pages yet.
    pub fn take_evicted(&mut self) -> Vec<(u32, Arc<Content>)> {
        std::mem::take(&mut self.evicted)
    }

    /// Publishes a page that a store has.
    pub fn publish_saved(&mut self, page: u32, content: &Arc<Content>) {
        self.publish(page, content);
        if self.find(content) == Some(page)
            && let Some(at) = self.pages[page as usize].unsaved_at.take()
        {
            self.unsaved.remove(&at);
        }
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
        self.blank.len() + self.unused.len() + self.count - self.pages.len()
    }

    /// Of these, pages that can be found by their content.
    pub fn cached(&self) -> usize {
        self.unused.len()
    }

    /// A page for writing, or none when all are held.
    pub fn take(&mut self) -> Option<u32> {
        if self.blank.is_empty() && self.pages.len() < self.count {
            self.pages.push(Page { holders: 1, ..Page::default() });
            return Some(self.pages.len() as u32 - 1);
        }
        let page = match self.blank.pop() {
            Some(page) => page,
            None => self.unused.pop_first()?.1,
        };
        self.forget(page);
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    /// One more holder of `page`.
    pub fn hold(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        // Nobody finds a page that holds nothing.
        debug_assert!(p.holders > 0 || p.content.is_some(), "page {page} holds something");
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

    /// True when the page is found by its content.
    pub fn published(&self, page: u32) -> bool {
        self.pages[page as usize].content.is_some()
    }

    /// Makes a page that is held unknown, since it is about to be written.
    pub fn withdraw(&mut self, page: u32) {
        self.forget(page);
    }

    /// True when others hold the page too, so that it must be copied before it is written.
    pub fn shared(&self, page: u32) -> bool {
        self.pages[page as usize].holders > 1
    }

    /// Makes a page known by what it holds, and no longer by what it held before. If another page has the same content
    /// already, that one stays known.
    pub fn publish(&mut self, page: u32, content: &Arc<Content>) {
        if self.find(content).is_none() {
            self.forget(page);
            self.by_content.insert(content.id, page);
            let p = &mut self.pages[page as usize];
            p.content = Some(content.clone());
            if self.saves {
                self.clock += 1;
                p.unsaved_at = Some(self.clock);
                self.unsaved.insert(self.clock, page);
            }
        }
    }

    /// The page that holds `content`.
    pub fn find(&self, content: &Content) -> Option<u32> {
        self.by_content.get(&content.id).copied()
    }

    /// A preempted sequence waits for a content: it is told when its page is taken.
    pub fn expect(&mut self, content: &Content) {
        self.awaited.insert(content.id);
    }

    /// No sequence waits for a content any more. With `forget` nobody finds it from now on.
    pub fn give_up(&mut self, content: &Content, forget: bool) {
        self.awaited.remove(&content.id);
        let Some(page) = self.find(content).filter(|_| forget) else { return };
        if self.pages[page as usize].holders == 0 {
            self.unused.remove(&self.pages[page as usize].unused_at);
            self.blank.push(page);
        }
        self.forget(page);
    }

    /// Nobody finds the contents of pages without a holder any more, but those that preempted sequences wait for: the memory
    /// that they lie in has failed.
    pub fn distrust(&mut self) {
        let waited = |page: &u32| {
            let content = &self.pages[*page as usize].content;
            content.as_ref().is_some_and(|content| self.awaited.contains(&content.id))
        };
        let pages: Vec<u32> = self.unused.values().copied().filter(|page| !waited(page)).collect();
        for page in pages {
            let p = &mut self.pages[page as usize];
            self.unused.remove(&p.unused_at);
            if let Some(at) = p.unsaved_at.take() {
                // Not for a store on disk either.
                self.unsaved.remove(&at);
            }
            self.forget(page);
            self.blank.push(page);
        }
    }

    /// Contents that sequences wait for and whose pages were taken since the last call. Nothing was written to these pages
    /// yet.
    pub fn take_swapped(&mut self) -> Vec<(u32, Arc<Content>)> {
        std::mem::take(&mut self.swapped)
    }

    fn put_aside(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        if p.content.is_none() {
            self.blank.push(page);
            return;
        }
        self.clock += 1;
        p.unused_at = self.clock;
        self.unused.insert(self.clock, page);
    }

    fn forget(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        if let Some(content) = p.content.take() {
            self.by_content.remove(&content.id);
            if self.awaited.contains(&content.id) {
                self.swapped.push((page, content.clone()));
            }
            if let Some(at) = p.unsaved_at.take() {
                self.unsaved.remove(&at);
                self.evicted.push((page, content));
            }
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
    fn what_a_store_has_not_got_is_told_once() {
        let mut contents = Contents::new(Namer::new(sha256, [0; 16]));
        let [one, two, three] =
            [1, 2, 3].map(|t| contents.intern([t as u8; 16], &Past::Root([].into()), &[t][..].into()));
        let mut pages = Pages::new(3);
        pages.save();
        for content in [&one, &two] {
            let page = pages.take().expect("free");
            pages.publish(page, content);
            pages.release(page);
        }
        assert_eq!(pages.next_unsaved().map(|(page, c)| (page, c.id)), Some((0, one.id)), "the oldest first");
        let page = pages.take().expect("free");
        pages.publish_saved(page, &three);
        while pages.take().is_some() {}
        let evicted: Vec<_> = pages.take_evicted().into_iter().map(|(page, c)| (page, c.id)).collect();
        assert_eq!(evicted, [(1, two.id)]);
        assert!(pages.next_unsaved().is_none() && pages.take_evicted().is_empty());
    }

    #[test]
    fn what_is_distrusted_is_found_only_by_who_waits_for_it() {
        let mut contents = Contents::new(Namer::new(sha256, [0; 16]));
        let [kept, waited, held] =
            [1, 2, 3].map(|t| contents.intern([t as u8; 16], &Past::Root([].into()), &[t][..].into()));
        let mut pages = Pages::new(3);
        pages.save();
        for content in [&kept, &waited, &held] {
            let page = pages.take().expect("free");
            pages.publish(page, content);
        }
        (0..2).for_each(|page| pages.release(page));
        pages.expect(&waited);
        pages.distrust();
        assert_eq!([&kept, &waited, &held].map(|c| pages.find(c)), [None, Some(1), Some(2)]);
        assert_eq!((pages.free(), pages.cached(), pages.take_evicted().len()), (2, 1, 0));
        assert_eq!(pages.take(), Some(0), "its memory is free");
    }

    #[test]
    fn what_is_taken_and_given_back_evicts_no_more_than_once() {
        let mut contents = Contents::new(Namer::new(sha256, [0; 16]));
        let all: Vec<_> = (0..3)
            .map(|t| contents.intern([t; 16], &Past::Root([].into()), &[u32::from(t)][..].into()))
            .collect();
        let mut pages = Pages::new(3);
        let taken: Vec<_> = all.iter().map(|_| pages.take().expect("free")).collect();
        taken.iter().zip(&all).for_each(|(&page, content)| pages.publish(page, content));
        taken.into_iter().for_each(|page| pages.release(page));
        for _ in 0..5 {
            let page = pages.take().expect("free");
            pages.release(page);
        }
        let known: Vec<_> = all.iter().map(|content| pages.find(content).is_some()).collect();
        assert_eq!((known, pages.cached(), pages.free()), (vec![false, true, true], 2, 3));
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
