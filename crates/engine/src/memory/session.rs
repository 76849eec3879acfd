//! The part of the cache that belongs to one text, for files that keep it.

use super::{Memory, disk::PlacedPart};
use crate::{
    kv::cache_part::CachePart,
    part_fetch::{FetchGoal, PartFetch},
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
    pub fn lacking(&mut self, s: &Sequence) -> PartFetch {
        let mut missing = PartFetch::new(vec![], FetchGoal::Begin { in_memory: 0 });
        for content in self.contents_of(s, s.prompt_pages.names.len(), |_| true) {
            for part in self.parts() {
                self.look_for(&content, part, &mut missing);
            }
        }
        missing
    }

    /// Lets go of what was put back for `s`: it is found like all that was computed. Returns the tokens of the longest
    /// beginning that memory has now.
    pub fn restored(&mut self, s: &Sequence, fetch: &PartFetch) -> usize {
        let contents = self.nameable(s);
        let in_memory =
            |memory: &mut Memory, page: usize, part: CachePart| memory.holds(&contents[page], part);
        let pages = self.longest_beginning(contents.len(), in_memory);
        self.release(&fetch.pages);
        pages * PAGE_LEN
    }
}
