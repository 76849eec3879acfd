//! Memory of the beams of a search: page tables and states of their own, whose pages they share as far as they are alike.

use super::Memory;
use crate::{
    kv::States,
    request::beams::BeamRoom,
    sequence::{Sequence, memory::BeamMemory},
};
use lamina_plan::{NO_PAGE, PAGE_LEN, SeqPlace, batch::Copy};
use std::mem::take;

impl Memory {
    /// Makes room for `rows` more rows of each beam of `s`; false when there is none. What was given out by then stays.
    pub fn grow_beams(&mut self, s: &mut Sequence, rows: usize) -> bool {
        let Some(group) = s.beams() else { return false };
        let (parents, computed) = (group.parents.clone(), s.tokens.len() + group.computed);
        if s.held.beams.is_empty() {
            // All of them go on from the prompt.
            let (tables, state) = (take(&mut s.held.tables), s.held.state.take());
            s.held.beams.push(BeamMemory { tables, state });
        }
        if !parents.is_empty() && !self.hand_down(s, &parents) {
            return false;
        }
        let mut beams = take(&mut s.held.beams);
        let has_room = beams.iter_mut().all(|beam| {
            let mut pages = computed / PAGE_LEN..(computed + rows).div_ceil(PAGE_LEN);
            let groups = self.groups.len();
            pages.all(|page| (0..groups).all(|group| self.own(&mut beam.tables, computed, group, page)))
        });
        s.held.beams = beams;
        has_room
    }

    /// Gives each beam the memory of the one that it goes on from; false when there are too few states.
    fn hand_down(&mut self, s: &mut Sequence, parents: &[usize]) -> bool {
        let mut old: Vec<_> = take(&mut s.held.beams).into_iter().map(Some).collect();
        let heirs = |parent: usize| parents.iter().filter(|&&p| p == parent).count();
        let copies: usize = (0..old.len()).map(|parent| heirs(parent).saturating_sub(1)).sum();
        let Some(mut states) = self.take_states(copies) else {
            s.held.beams = old.into_iter().flatten().collect();
            return false;
        };
        for (i, &parent) in parents.iter().enumerate() {
            let last = !parents[i + 1..].contains(&parent);
            let beam = match last {
                true => old[parent].take(),
                false => old[parent].as_ref().map(|beam| self.copy_beam(beam, states.pop())),
            };
            s.held.beams.extend(beam);
        }
        old.into_iter().flatten().for_each(|beam| self.release_beam(beam));
        if let Some(group) = s.beams_mut() {
            group.parents.clear();
        }
        true
    }

    /// So many states; none when there are fewer.
    fn take_states(&mut self, count: usize) -> Option<Vec<u32>> {
        let Some(states) = &mut self.states else { return Some(vec![]) };
        let taken: Vec<u32> = std::iter::from_fn(|| states.take()).take(count).collect();
        let enough = taken.len() == count;
        if !enough {
            taken.iter().for_each(|&state| states.release(state));
        }
        self.note_evicted();
        enough.then_some(taken)
    }

    /// A beam that shares all pages of another one, and has a copy of its state.
    fn copy_beam(&mut self, of: &BeamMemory, state: Option<u32>) -> BeamMemory {
        for (group, table) in self.groups.iter_mut().zip(&of.tables) {
            table.iter().filter(|&&p| p != NO_PAGE).for_each(|&p| group.pages.hold(p));
        }
        if let Some(to) = state {
            self.copies.push(Copy::State { from: of.state, to });
        }
        BeamMemory { tables: of.tables.clone(), state }
    }

    /// Takes the memory of a beam back.
    pub(super) fn release_beam(&mut self, beam: BeamMemory) {
        for (group, table) in self.groups.iter_mut().zip(&beam.tables) {
            table.iter().rev().filter(|&&p| p != NO_PAGE).for_each(|&p| group.pages.release(p));
        }
        self.states
            .iter_mut()
            .zip(beam.state)
            .for_each(|(states, state): (&mut States, u32)| states.release(state));
    }

    /// Page tables and states of the beams of `s`, for a batch.
    pub fn beam_places(&self, s: &Sequence) -> impl Iterator<Item = SeqPlace> {
        let place = self.place(s);
        s.held.beams.iter().map(move |beam| SeqPlace {
            pages: beam.tables.clone(),
            state: beam.state.unwrap_or(0),
            ..place.clone()
        })
    }

    /// What there is for the beams of one search; `rows` rows of a step may have logits.
    pub fn beam_room(&self, rows: usize) -> BeamRoom {
        let groups = self.groups.iter().map(|group| (group.reach, group.pages.len())).collect();
        BeamRoom { rows, states: self.states.as_ref().map(|_| self.state_count), groups }
    }

    /// Gives back pages of the beams of `s` that no later row sees.
    pub(super) fn drop_passed_of_beams(&mut self, s: &mut Sequence) {
        let Some(group) = s.beams() else { return };
        let computed = s.tokens.len() + group.computed;
        for beam in &mut s.held.beams {
            self.drop_passed(&mut beam.tables, computed);
        }
    }
}
