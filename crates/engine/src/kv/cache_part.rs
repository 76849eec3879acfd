//! What a store on disk keeps of a content: a page of each layer group, and the state behind its last token.

use super::content::{Cells, Content, Name, Namer, sha256};
use lamina_disk::{Entry, Key, WantedEntry};
use std::collections::HashMap;

/// One of the things that a machine has computed for a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CachePart {
    /// The page of a layer group.
    Page(usize),
    /// The recurrent state behind the last token.
    State,
}

impl CachePart {
    /// Name of the entry that holds this part of the content called `name`.
    pub fn key(self, name: &Name) -> Key {
        sha256(&[&name[..], &self.number().to_le_bytes()].concat(), &Cells::from(&[][..]))
    }

    /// The entry that holds this part of `content`, with what proves that it does: all that its name was made of.
    pub fn wanted(self, namer: &Namer, content: &Content) -> WantedEntry {
        let proof = [&namer.model()[..], &self.number().to_le_bytes(), &content.proof()].concat();
        WantedEntry { key: self.key(&content.name), proof }
    }

    fn number(self) -> u64 {
        match self {
            CachePart::Page(group) => group as u64,
            CachePart::State => u64::MAX,
        }
    }
}

/// Entries by their names, to be put back.
pub type SavedEntries = HashMap<Key, Entry>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::content::{Contents, Past};
    use std::collections::HashSet;

    #[test]
    fn what_differs_has_another_key_and_another_proof() {
        let mut all = vec![];
        for model in [1, 2] {
            let namer = Namer::new(sha256, [model; 16]);
            let mut contents = Contents::new(namer);
            let mut add = |past: &Past, tokens: &[u32]| {
                let content = contents.intern(namer.name(past, &tokens.into()), past, &tokens.into());
                all.extend(
                    [CachePart::Page(0), CachePart::Page(1), CachePart::State]
                        .map(|p| p.wanted(&namer, &content)),
                );
                content
            };
            let first = add(&Past::Root([1].into()), &[1, 2]);
            add(&Past::Root([2].into()), &[1, 2]);
            add(&Past::Page(first.clone()), &[1, 2]);
            add(&Past::Page(first), &[1, 3]);
        }
        let keys: HashSet<_> = all.iter().map(|w| w.key).collect();
        let proofs: HashSet<_> = all.iter().map(|w| &w.proof).collect();
        assert_eq!((keys.len(), proofs.len()), (24, 24));
    }
}
