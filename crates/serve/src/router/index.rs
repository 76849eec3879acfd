//! What a router believes that each replica has computed: names, of which each replica keeps the youngest.

use std::collections::{BTreeMap, HashMap};

/// Replicas at most: a name has a bit for each.
pub const MOST_REPLICAS: usize = 64;
/// Names that a replica is believed to hold: 64 thousand tokens of four bytes.
pub const MOST_NAMES: usize = 2048;

/// Who holds which names.
#[derive(Debug, Clone, Default)]
pub struct RouteIndex {
    holders: HashMap<u128, u64>,
    held: Vec<HeldNames>,
}

/// The names of one replica, by when they were used last.
#[derive(Debug, Clone, Default)]
struct HeldNames {
    last: HashMap<u128, u64>,
    order: BTreeMap<u64, u128>,
    time: u64,
    room: usize,
}

impl RouteIndex {
    /// Replicas that hold nothing yet, each with room for so many names.
    pub fn new(replicas: usize, room: usize) -> RouteIndex {
        let held = HeldNames { room: room.max(1), ..HeldNames::default() };
        RouteIndex { holders: HashMap::new(), held: vec![held; replicas.min(MOST_REPLICAS)] }
    }

    /// How many of the names, from the first on, each replica holds.
    pub fn found(&self, names: &[u128]) -> Vec<usize> {
        let mut found = vec![0; self.held.len()];
        let mut left = u64::MAX;
        for (place, name) in names.iter().enumerate() {
            left &= self.holders.get(name).copied().unwrap_or(0);
            if left == 0 {
                break;
            }
            let holds = |replica: usize| left >> replica & 1 == 1;
            found.iter_mut().enumerate().filter(|(r, _)| holds(*r)).for_each(|(_, n)| *n = place + 1);
        }
        found
    }

    /// A replica computes these names. Beginnings are younger than ends, as in an engine's cache.
    pub fn put(&mut self, replica: usize, names: &[u128]) {
        let Some(held) = self.held.get_mut(replica) else { return };
        for &name in names.iter().rev() {
            held.time += 1;
            match held.last.insert(name, held.time) {
                Some(before) => _ = held.order.remove(&before),
                None => *self.holders.entry(name).or_default() |= 1 << replica,
            }
            held.order.insert(held.time, name);
        }
        while held.last.len() > held.room {
            let Some((_, oldest)) = held.order.pop_first() else { break };
            held.last.remove(&oldest);
            Self::drop_holder(&mut self.holders, oldest, replica);
        }
    }

    /// The names of a replica, the youngest first: given to [`RouteIndex::put`] they come back as they are.
    pub fn held(&self, replica: usize) -> Vec<u128> {
        self.held.get(replica).map(|held| held.order.values().rev().copied().collect()).unwrap_or_default()
    }

    /// A replica holds nothing any more: another process has taken its place.
    pub fn forget(&mut self, replica: usize) {
        let Some(held) = self.held.get_mut(replica) else { return };
        held.order.clear();
        for (name, _) in held.last.drain() {
            Self::drop_holder(&mut self.holders, name, replica);
        }
    }

    /// Names that anybody holds.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// True where nobody holds any.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    fn drop_holder(holders: &mut HashMap<u128, u64>, name: u128, replica: usize) {
        let bits = holders.entry(name).or_default();
        *bits &= !(1 << replica);
        if *bits == 0 {
            holders.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_names_stay_and_beginnings_are_younger_than_ends() {
        let mut index = RouteIndex::new(2, 4);
        index.put(0, &[1, 2, 3]);
        index.put(1, &[1, 9]);
        assert_eq!(index.found(&[1, 2, 3, 4]), [3, 1]);
        assert_eq!(index.found(&[2, 3]), [2, 0], "a name stands for all before it: who asks has the chain");
        index.put(0, &[1, 2, 5, 6]);
        assert_eq!((index.found(&[1, 2, 3]), index.found(&[1, 2, 5, 6])), (vec![2, 1], vec![4, 1]));
        index.put(0, &[7]);
        assert_eq!(index.found(&[1, 2, 5, 6])[0], 3, "the end left first");
        let mut copy = RouteIndex::new(1, 4);
        copy.put(0, &index.held(0));
        assert_eq!((copy.held(0), index.held(2)), (vec![7, 1, 2, 5], vec![]));
        index.forget(0);
        assert_eq!(index.found(&[1, 2]), [0, 1]);
        assert_eq!(index.len(), 2);
        index.forget(1);
        assert!(index.is_empty());
    }

    /// The sketch's LRU: a list from the oldest to the youngest.
    #[test]
    fn it_holds_what_a_list_would() {
        let (mut index, mut list) = (RouteIndex::new(1, 20), Vec::<u128>::new());
        let mut state = 1_u64;
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (first, length) = ((state >> 33) % 40, (state >> 50) % 9);
            let names: Vec<u128> = (first..first + length).map(u128::from).collect();
            index.put(0, &names);
            for name in names.iter().rev() {
                list.retain(|held| held != name);
                list.push(*name);
            }
            let much = list.len().saturating_sub(20);
            list.drain(..much);
            assert!((0..60).all(|name| (index.found(&[name])[0] == 1) == list.contains(&name)));
        }
    }
}
