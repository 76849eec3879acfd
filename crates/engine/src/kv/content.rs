//! What cached pages hold: tokens behind a past, as values that are equal only where all of it is.
//!
//! A page's name is 128 bits of SHA-256 over the name of its past and its tokens: stable over processes and machines, so
//! that pages can be kept on disk. Names find contents, they do not prove them: each content is held once ([`Contents`]),
//! its past is a pointer to the content before, and tokens are compared. Whatever the hash does, a sequence finds only
//! pages that were computed behind the same tokens, model, number types, adapters and salt.

use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

/// 128 bits that name a content.
pub type Name = [u8; 16];

/// From a past's name (or the root) and a page's tokens to a name.
pub type Hash = fn(&[u8], &[u32]) -> Name;

/// The first 128 bits of SHA-256.
pub fn sha256(before: &[u8], tokens: &[u32]) -> Name {
    let mut h = Sha256::new();
    // Lengths first: no root can read like another one with tokens behind it.
    h.update((before.len() as u64).to_le_bytes());
    h.update(before);
    tokens.iter().for_each(|t| h.update(t.to_le_bytes()));
    let mut name = Name::default();
    name.copy_from_slice(&h.finalize()[..16]);
    name
}

/// What stands before a page.
#[derive(Clone, Debug)]
pub enum Past {
    /// Nothing but what all of the sequence's numbers depend on beside the model: long tables, adapters, salt.
    Root(Arc<[u8]>),
    /// The page before.
    Page(Arc<Content>),
}

impl Past {
    /// True for the same past; contents are held once, so the same page before is the same pointer.
    fn is(&self, other: &Past) -> bool {
        match (self, other) {
            (Past::Root(a), Past::Root(b)) => a == b,
            (Past::Page(a), Past::Page(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The tokens of a full page and their past.
#[derive(Debug)]
pub struct Content {
    /// Its stable name.
    pub name: Name,
    /// Distinguishes contents of one process.
    pub id: u64,
    past: Past,
    tokens: Box<[u32]>,
}

impl Drop for Content {
    /// Lets go of a long past one page after the other: as deep calls it would overflow the stack.
    fn drop(&mut self) {
        let nothing = || Past::Root(Arc::from([]));
        let mut past = std::mem::replace(&mut self.past, nothing());
        while let Past::Page(page) = past {
            let Some(mut page) = Arc::into_inner(page) else { return };
            past = std::mem::replace(&mut page.past, nothing());
        }
    }
}

/// All contents that a page, a sequence or a snapshot holds.
#[derive(Debug)]
pub struct Contents {
    hash: Hash,
    /// Name of what all roots stand on: the plan and the number types.
    model: Name,
    by_name: HashMap<Name, Vec<Weak<Content>>>,
    ids: u64,
    /// Names after which those of dropped contents are looked for.
    sweep_at: usize,
}

impl Contents {
    /// None yet, with names from `hash` that are those of `model` alone.
    pub fn new(hash: Hash, model: Name) -> Contents {
        Contents { hash, model, by_name: HashMap::new(), ids: 0, sweep_at: 1024 }
    }

    /// The content of `tokens` behind `past`, if anything holds it.
    pub fn find(&self, past: &Past, tokens: &[u32]) -> Option<Arc<Content>> {
        let same = |c: &Arc<Content>| *c.tokens == *tokens && c.past.is(past);
        let all = self.by_name.get(&self.name(past, tokens))?;
        all.iter().filter_map(Weak::upgrade).find(same)
    }

    /// The content of `tokens` behind `past`.
    pub fn intern(&mut self, past: &Past, tokens: &[u32]) -> Arc<Content> {
        if let Some(known) = self.find(past, tokens) {
            return known;
        }
        self.sweep();
        self.ids += 1;
        let name = self.name(past, tokens);
        let content = Arc::new(Content { name, id: self.ids, past: past.clone(), tokens: tokens.into() });
        self.by_name.entry(name).or_default().push(Arc::downgrade(&content));
        content
    }

    fn name(&self, past: &Past, tokens: &[u32]) -> Name {
        match past {
            Past::Root(root) => (self.hash)(&[&self.model[..], root].concat(), tokens),
            Past::Page(content) => (self.hash)(&content.name, tokens),
        }
    }

    fn sweep(&mut self) {
        if self.by_name.len() < self.sweep_at {
            return;
        }
        self.by_name.retain(|_, all| {
            all.retain(|c| c.strong_count() > 0);
            !all.is_empty()
        });
        self.sweep_at = 1024.max(2 * self.by_name.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> Past {
        Past::Root(text.as_bytes().into())
    }

    #[test]
    fn names_are_stable() {
        let name = sha256(b"model", &[1, 2, 3]);
        let hex: String = name.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "aa6b62e3031e743b538d3bda0856aef2");
    }

    #[test]
    fn equal_names_make_no_equal_contents() {
        let mut contents = Contents::new(|_, _| Name::default(), Name::default());
        let a = contents.intern(&root("a"), &[1, 2]);
        let b = contents.intern(&root("b"), &[1, 2]);
        let c = contents.intern(&Past::Page(a.clone()), &[1, 2]);
        let d = contents.intern(&Past::Page(b.clone()), &[1, 2]);
        let ids = [&a, &b, &c, &d].map(|x| x.id);
        assert_eq!(ids, [1, 2, 3, 4]);
        assert_eq!(contents.intern(&Past::Page(b), &[1, 2]).id, d.id);
        assert!(contents.find(&root("c"), &[1, 2]).is_none());
        drop((a, c));
        assert!(contents.find(&root("a"), &[1, 2]).is_none());
    }

    #[test]
    fn a_long_past_is_dropped_without_deep_calls() {
        let mut contents = Contents::new(sha256, Name::default());
        let mut past = root("");
        for i in 0..200_000 {
            past = Past::Page(contents.intern(&past, &[i]));
        }
        drop(past);
        contents.sweep_at = 0;
        contents.intern(&root("x"), &[1]);
        assert_eq!(contents.by_name.len(), 1);
    }
}
