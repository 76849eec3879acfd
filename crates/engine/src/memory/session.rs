//! The part of the cache that belongs to one text, for files that keep it.

use super::{Memory, disk::PlacedPart};
use crate::{
    fetching::{Fetching, WantedPart},
    kv::{cache_part::CachePart, content::Past},
    sequence::Sequence,
};
use lamina_plan::PAGE_LEN;

impl Memory {
    /// All that memory has of the full pages of `s`; of states, the last one.
    pub fn parts_of(&mut self, s: &Sequence) -> Vec<PlacedPart> {
        let contents = self.nameable(s);
        let mut parts = vec![];
        for content in &contents {
            for (group, g) in self.groups.iter().enumerate() {
                let at = g.pages.find(content);
                parts.extend(at.map(|at| PlacedPart {
                    content: content.clone(),
                    part: CachePart::Page(group),
                    at,
                }));
            }
        }
        let state = self.states.as_mut().and_then(|states| {
            contents.iter().rev().find_map(|content| Some((content, states.find(content)?)))
        });
        parts.extend(state.map(|(content, at)| PlacedPart {
            content: content.clone(),
            part: CachePart::State,
            at,
        }));
        parts
    }

    /// What memory lacks of the full pages of `s`; what it has is held until [`Memory::restored`].
    pub fn lacking(&mut self, s: &Sequence) -> Fetching {
        let mut past = Past::Root(s.root.clone());
        let (mut wanted, mut pages) = (vec![], vec![]);
        for (page, name) in s.prompt_pages.names.iter().enumerate() {
            let cells = s.cells(page * PAGE_LEN..(page + 1) * PAGE_LEN);
            let content = self.contents.intern(*name, &past, &cells);
            for part in self.parts() {
                match part {
                    CachePart::Page(group) if self.holds(&content, part) => {
                        let held = self.groups[group].pages.find(&content);
                        held.into_iter().for_each(|at| {
                            self.groups[group].pages.hold(at);
                            pages.push((group, at));
                        });
                    }
                    part if self.holds(&content, part) => {}
                    part => wanted.push(WantedPart { content: content.clone(), part }),
                }
            }
            past = Past::Page(content);
        }
        Fetching { left: wanted.len(), wanted, fetch: None, pages, in_memory: 0 }
    }

    /// Lets go of what was put back for `s`: it is found like all that was computed. Returns the tokens of the longest
    /// beginning that memory has now.
    pub fn restored(&mut self, s: &Sequence, fetching: &Fetching) -> usize {
        let contents = self.nameable(s);
        let in_memory =
            |memory: &mut Memory, page: usize, part: CachePart| memory.holds(&contents[page], part);
        let pages = self.longest_beginning(contents.len(), in_memory);
        self.release(&fetching.pages);
        pages * PAGE_LEN
    }
}
