//! Contents of the prefix cache: the tokens of a page, rows of numbers in the place of some, and the pages before it, as
//! values that are equal only where all of it is.
//!
//! A page's name is 128 bits of SHA-256 over the name of its past and its cells. Names begin with that of the weights, the
//! plan, the number types and the adapters ([`Identity`]), so that they hold across processes and pages can be kept on
//! disk. Names find contents, they do not prove them: each content is held once ([`Contents`]), its past is a pointer to
//! the content before, and cells are compared. Whatever the hash does, a sequence finds only pages that were computed
//! behind the same tokens and rows, model, number types, adapters and salt.

use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

/// 128 bits that name a content.
pub type Name = [u8; 16];

/// From a past's name (or the root) and a page's cells to a name.
pub type Hash = fn(&[u8], &Cells<'_>) -> Name;

/// Names of what an engine's numbers depend on beside its plan; they hold across processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Of the weights, and of what computes with them.
    pub weights: Name,
    /// Of each adapter by its index.
    pub loras: Vec<Name>,
}

/// Digest of rows of numbers: SHA-256 over their width and their bits, long enough to stand for the rows themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsId([u8; 32]);

impl RowsId {
    /// The digest of `numbers` in rows of `width`.
    pub fn of(width: usize, numbers: &[f32]) -> RowsId {
        let mut h = Sha256::new();
        h.update((width as u64).to_le_bytes());
        // In pieces: a call of the hash for each number costs more than hashing it.
        let mut bytes = [0; 4096];
        for piece in numbers.chunks(bytes.len() / 4) {
            let filled = &mut bytes[..4 * piece.len()];
            filled.chunks_exact_mut(4).zip(piece).for_each(|(b, v)| b.copy_from_slice(&v.to_le_bytes()));
            h.update(filled);
        }
        RowsId(h.finalize().into())
    }

    /// A digest that was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> RowsId {
        RowsId(bytes)
    }

    /// The digest, to be kept.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of a part of what is made of something with the digest `source`.
    pub fn of_source(source: &Name, part: std::ops::Range<usize>) -> RowsId {
        let mut h = Sha256::new();
        h.update(source);
        [part.start, part.end].into_iter().for_each(|n| h.update((n as u64).to_le_bytes()));
        RowsId(h.finalize().into())
    }
}

/// Cells that hold rows of numbers in the place of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSpan {
    /// First cell in its page.
    pub cell: u32,
    /// Which of the rows stands there.
    pub from: u32,
    /// Cells.
    pub len: u32,
    /// The rows.
    pub id: RowsId,
}

/// What the cells of a page hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells<'a> {
    /// Token of each cell; where rows stand, any.
    pub tokens: &'a [u32],
    /// Rows of numbers, in order.
    pub rows: Vec<RowSpan>,
    /// First cell of an answer, where decode rows are not what rows of a prompt with the same tokens would be.
    pub decoded: Option<u32>,
}

impl<'a> From<&'a [u32]> for Cells<'a> {
    fn from(tokens: &'a [u32]) -> Self {
        Cells { tokens, rows: vec![], decoded: None }
    }
}

/// The first 128 bits of SHA-256.
pub fn sha256(before: &[u8], cells: &Cells<'_>) -> Name {
    let mut h = Sha256::new();
    // Lengths first: nothing can read like a shorter part with the next one behind it.
    h.update((before.len() as u64).to_le_bytes());
    h.update(before);
    h.update((cells.tokens.len() as u64).to_le_bytes());
    cells.tokens.iter().for_each(|t| h.update(t.to_le_bytes()));
    for RowSpan { cell, from, len, id } in &cells.rows {
        [cell, from, len].into_iter().for_each(|n| h.update(n.to_le_bytes()));
        h.update(id.0);
    }
    // Shorter than a row's part, so that neither reads like the other.
    cells.decoded.iter().for_each(|first| h.update(first.to_le_bytes()));
    let mut name = Name::default();
    name.copy_from_slice(&h.finalize()[..16]);
    name
}

/// Gives names: those of one model, by one hash.
#[derive(Clone, Copy, Debug)]
pub struct Namer {
    hash: Hash,
    /// Name of what all roots stand on: the weights, the plan and the number types.
    model: Name,
}

impl Namer {
    /// Names that begin with `model`.
    pub fn new(hash: Hash, model: Name) -> Namer {
        Namer { hash, model }
    }

    /// What all names begin with.
    pub fn model(&self) -> &Name {
        &self.model
    }

    /// The same names with `weights` before them.
    pub fn identified(self, weights: &Name) -> Namer {
        let model = (self.hash)(&[&self.model[..], weights].concat(), &Cells::from(&[][..]));
        Namer { model, ..self }
    }

    /// The name of `cells` behind `past`.
    pub fn name(&self, past: &Past, cells: &Cells<'_>) -> Name {
        match past {
            Past::Root(root) => self.first(root, cells),
            Past::Page(content) => (self.hash)(&content.name, cells),
        }
    }

    /// The names of pages that stand one behind the other, the first one behind `root`.
    pub fn chain<'a>(&self, root: &[u8], pages: impl Iterator<Item = Cells<'a>>) -> Vec<Name> {
        let mut names: Vec<Name> = vec![];
        for cells in pages {
            let name =
                names.last().map_or_else(|| self.first(root, &cells), |past| (self.hash)(past, &cells));
            names.push(name);
        }
        names
    }

    fn first(&self, root: &[u8], cells: &Cells<'_>) -> Name {
        (self.hash)(&[&self.model[..], root].concat(), cells)
    }
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

/// The cells of a full page and their past.
#[derive(Debug)]
pub struct Content {
    /// Its stable name.
    pub name: Name,
    /// Distinguishes contents of one process.
    pub id: u64,
    past: Past,
    tokens: Box<[u32]>,
    rows: Box<[RowSpan]>,
    decoded: Option<u32>,
}

impl Content {
    /// What its name was made of behind the model's: the root or the name of the past, the tokens and the rows.
    pub fn proof(&self) -> Vec<u8> {
        let mut out = match &self.past {
            Past::Root(root) => [&(root.len() as u64).to_le_bytes(), &**root].concat(),
            Past::Page(past) => [&u64::MAX.to_le_bytes(), &past.name[..]].concat(),
        };
        out.extend((self.tokens.len() as u64).to_le_bytes());
        self.tokens.iter().for_each(|t| out.extend(t.to_le_bytes()));
        for RowSpan { cell, from, len, id } in &self.rows {
            [cell, from, len].into_iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(id.0);
        }
        out.extend(self.decoded.iter().flat_map(|first| first.to_le_bytes()));
        out
    }

    fn is(&self, past: &Past, cells: &Cells<'_>) -> bool {
        *self.tokens == *cells.tokens
            && *self.rows == *cells.rows
            && self.decoded == cells.decoded
            && self.past.is(past)
    }
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
    namer: Namer,
    by_name: HashMap<Name, Vec<Weak<Content>>>,
    ids: u64,
    /// Names after which those of dropped contents are looked for.
    sweep_at: usize,
}

impl Contents {
    /// None yet.
    pub fn new(namer: Namer) -> Contents {
        Contents { namer, by_name: HashMap::new(), ids: 0, sweep_at: 1024 }
    }

    /// What gives the names.
    pub fn namer(&self) -> Namer {
        self.namer
    }

    /// Puts `weights` before all names.
    pub fn identify(&mut self, weights: &Name) {
        debug_assert!(self.by_name.is_empty(), "contents have names already");
        self.namer = self.namer.identified(weights);
    }

    /// The content of `cells` behind `past`, called `name`, if anything holds it.
    pub fn find(&self, name: &Name, past: &Past, cells: &Cells<'_>) -> Option<Arc<Content>> {
        let all = self.by_name.get(name)?;
        all.iter().filter_map(Weak::upgrade).find(|c| c.is(past, cells))
    }

    /// The content of `cells` behind `past`, called `name`.
    pub fn intern(&mut self, name: Name, past: &Past, cells: &Cells<'_>) -> Arc<Content> {
        if let Some(known) = self.find(&name, past, cells) {
            return known;
        }
        self.sweep();
        self.ids += 1;
        let content = Arc::new(Content {
            name,
            id: self.ids,
            past: past.clone(),
            tokens: cells.tokens.into(),
            rows: cells.rows.as_slice().into(),
            decoded: cells.decoded,
        });
        self.by_name.entry(name).or_default().push(Arc::downgrade(&content));
        content
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

    fn text(tokens: &[u32]) -> Cells<'_> {
        Cells::from(tokens)
    }

    #[test]
    fn names_are_stable() {
        let hex = |name: Name| name.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(sha256(b"model", &text(&[1, 2, 3]))), "7bdae2ec81f5bf8ababdd1ff62a07cfb");
        let rows = vec![RowSpan { cell: 1, from: 0, len: 2, id: RowsId::of(1, &[0.5, -1.0]) }];
        assert_eq!(
            hex(sha256(b"model", &Cells { rows, ..text(&[1, 2, 3]) })),
            "137b31cd29951663df0886386f37dd9b"
        );
    }

    /// The content of cells behind a past, by the name that it has.
    fn intern(contents: &mut Contents, past: &Past, cells: Cells<'_>) -> Arc<Content> {
        contents.intern(contents.namer().name(past, &cells), past, &cells)
    }

    fn find(contents: &Contents, past: &Past, cells: Cells<'_>) -> Option<Arc<Content>> {
        contents.find(&contents.namer().name(past, &cells), past, &cells)
    }

    #[test]
    fn chains_have_the_names_of_their_pages() {
        let mut contents = Contents::new(Namer::new(sha256, [3; 16]));
        let pages = [[1, 2], [3, 4], [1, 2]];
        let (mut past, mut names) = (root("a"), vec![]);
        for page in &pages {
            let content = intern(&mut contents, &past, text(page));
            names.push(content.name);
            past = Past::Page(content);
        }
        assert_eq!(contents.namer().chain(b"a", pages.iter().map(|p| text(p))), names);
    }

    #[test]
    fn names_tell_weights_apart_and_hold_across_engines() {
        let name = |weights: u8| {
            let mut contents = Contents::new(Namer::new(sha256, [7; 16]));
            contents.identify(&[weights; 16]);
            intern(&mut contents, &root("a"), text(&[1, 2])).name
        };
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }

    #[test]
    fn equal_names_make_no_equal_contents() {
        let mut contents = Contents::new(Namer::new(|_, _| Name::default(), Name::default()));
        let a = intern(&mut contents, &root("a"), text(&[1, 2]));
        let b = intern(&mut contents, &root("b"), text(&[1, 2]));
        let c = intern(&mut contents, &Past::Page(a.clone()), text(&[1, 2]));
        let d = intern(&mut contents, &Past::Page(b.clone()), text(&[1, 2]));
        let span = |from, numbers| RowSpan { cell: 0, from, len: 1, id: RowsId::of(1, numbers) };
        let rows = |from, numbers| Cells { rows: vec![span(from, numbers)], ..text(&[1, 2]) };
        let e = intern(&mut contents, &root("a"), rows(0, &[1.0, 2.0]));
        let f = intern(&mut contents, &root("a"), rows(1, &[1.0, 2.0]));
        let g = intern(&mut contents, &root("a"), rows(0, &[1.0, 3.0]));
        let ids = [&a, &b, &c, &d, &e, &f, &g].map(|x| x.id);
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(intern(&mut contents, &Past::Page(b), text(&[1, 2])).id, d.id);
        assert_eq!(intern(&mut contents, &root("a"), rows(1, &[1.0, 2.0])).id, f.id);
        assert!(find(&contents, &root("c"), text(&[1, 2])).is_none());
        drop((a, c, e, f, g));
        assert!(find(&contents, &root("a"), text(&[1, 2])).is_none());
    }

    #[test]
    fn a_long_past_is_dropped_without_deep_calls() {
        let mut contents = Contents::new(Namer::new(sha256, Name::default()));
        let mut past = root("");
        for i in 0..200_000 {
            past = Past::Page(intern(&mut contents, &past, text(&[i])));
        }
        drop(past);
        contents.sweep_at = 0;
        intern(&mut contents, &root("x"), text(&[1]));
        assert_eq!(contents.by_name.len(), 1);
    }
}
