//! Preempted sequences whose memory is kept: what comes back is what went out, and where something is missing all of it is
//! computed again.

use super::*;
use crate::{kv::cache_part::CachePart, part_fetch::FetchGoal, swap_price::SwapChoice};
use lamina_disk::Key;

/// What a part of a content held.
#[derive(Clone)]
enum Kept {
    Page([u32; PAGE_LEN]),
    State(Vec<u32>),
}

/// A store that is slow, and refuses or loses some of what it gets.
pub(super) struct FakeStore {
    kept: HashMap<Key, (u64, Kept)>,
    random: u64,
    /// Of 32 parts, so many are refused and as many lost.
    faults: usize,
}

impl FakeStore {
    /// A number below `n`.
    fn roll(&mut self, n: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % n
    }

    fn fails(&mut self) -> bool {
        self.roll(32) < self.faults
    }
}

impl World {
    /// From now on preempted sequences are swapped.
    pub(super) fn keep_swapped(&mut self, random: u64, faults: usize) {
        self.swapped = Some(FakeStore { kept: HashMap::new(), random, faults });
        self.schedule.swap = Some(SwapPrice { choice: SwapChoice::Always, ..SwapPrice::default() });
    }

    /// What an engine does before a step's copies and rows.
    pub(super) fn swap_out(&mut self) {
        let Some(store) = &mut self.swapped else { return };
        self.schedule.memory.take_let_go().iter().for_each(|key| _ = store.kept.remove(key));
        for placed in self.schedule.memory.take_swapped() {
            let kept = match placed.part {
                CachePart::Page(group) => Kept::Page(self.pages[group][placed.at as usize]),
                CachePart::State => Kept::State(self.states[placed.at as usize].clone()),
            };
            if !store.fails() {
                store.kept.entry(placed.part.key(&placed.content.name)).or_insert((placed.content.id, kept));
                self.schedule.memory.stored(&placed);
            }
        }
    }

    /// Now and then, what a sequence waits for comes.
    pub(super) fn swap_in(&mut self) {
        for i in 0..self.schedule.running.len() {
            let comes = self.swapped.as_mut().is_some_and(|store| store.roll(3) == 0);
            if !comes || !self.schedule.running[i].held.returns() {
                continue;
            }
            self.swap_out();
            let copies = self.schedule.memory.copies.take();
            self.copy(&copies);
            let whole = self.take_back(i);
            let (memory, s) = (&mut self.schedule.memory, &mut self.schedule.running[i]);
            if whole { memory.swapped_in(s) } else { memory.not_swapped_in(s) }
        }
    }

    /// Puts all that sequence `i` waits for into its place; false where something is missing.
    fn take_back(&mut self, i: usize) -> bool {
        let (Some(store), Some(back)) = (&mut self.swapped, &self.schedule.running[i].held.awaits) else {
            return false;
        };
        let FetchGoal::Return { places, .. } = &back.goal else { return false };
        back.wanted.iter().zip(places).all(|(wanted, at)| {
            let key = wanted.part.key(&wanted.content.name);
            let kept =
                store.kept.get(&key).filter(|(id, _)| *id == wanted.content.id).map(|(_, kept)| kept.clone());
            match (wanted.part, kept) {
                _ if store.fails() => return false,
                (CachePart::Page(group), Some(Kept::Page(cells))) => self.pages[group][*at as usize] = cells,
                (CachePart::State, Some(Kept::State(seen))) => self.states[*at as usize] = seen,
                _ => return false,
            }
            true
        })
    }

    pub(super) fn check_nothing_is_swapped(&mut self) {
        self.swapped.iter_mut().for_each(|store| store.faults = 0);
        // Collisions of weak names aside, nothing may be left.
        let let_go = self.schedule.memory.take_let_go();
        let Some(store) = &mut self.swapped else { return };
        let_go.iter().for_each(|key| _ = store.kept.remove(key));
        assert!(store.kept.is_empty(), "{} parts are kept for nobody", store.kept.len());
        assert_eq!(self.schedule.memory.swaps.awaited(), 0, "nobody waits");
    }
}

#[test]
fn a_swapped_sequence_goes_on_where_it_was() {
    for (recurrent, reuse) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new(recurrent, limits(64, 8, 5), reuse);
        world.keep_swapped(1, 0);
        let urgent = Terms { priority: -1, ..Terms::default() };
        world.answer(tokens(1, 60), 60);
        world.step();
        let b = world.add(tokens(2, 30), generate(1), urgent, &Arc::default());
        world.wants.insert(b, 60);
        let mut computed = None;
        for _ in 0..300 {
            let before = world.schedule.running.iter().find(|s| s.id == 0).map(|s| s.computed);
            world.step();
            if world.log.lines().any(|l| l == "preempt 0") {
                assert!(computed.is_none(), "it is preempted once");
                computed = before;
            }
            let back = world.log.lines().find(|l| l.starts_with("sequence 0"));
            if let (Some(n), Some(line)) = (computed, back) {
                assert_eq!(line, format!("sequence 0: positions {n}..{}, 0 left", n + 1));
                break;
            }
        }
        let swaps = &world.schedule.memory.swaps;
        assert_eq!((swaps.kept, swaps.returned, swaps.lost), (1, 1, 0), "{recurrent} {reuse}");
        world.finish();
    }
}

#[test]
fn cancelled_sequences_leave_nothing_behind() {
    for recurrent in [false, true] {
        let mut world = World::new(recurrent, limits(64, 8, 5), true);
        world.keep_swapped(1, 0);
        for i in 0..3 {
            world.answer(tokens(i, 20), 100);
        }
        let waits = (0..300).any(|_| {
            world.step();
            world.schedule.memory.swaps.awaited() > 0
        });
        assert!(waits, "one is preempted");
        world.schedule.remove(|_| true);
        world.finish();
    }
}
