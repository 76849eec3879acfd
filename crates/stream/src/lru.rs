//! What a cache would find that always evicts the least recently used: the measure that another policy is held against.

use std::collections::BTreeMap;

/// A cache of numbers without anything in it, by least recent use.
#[derive(Clone, Debug)]
pub struct LruTwin {
    slots: usize,
    /// Uses so far.
    clock: u64,
    /// When each number was last used; none where it is not in the cache.
    last: Vec<Option<u64>>,
    /// The number of each last use.
    order: BTreeMap<u64, usize>,
}

impl LruTwin {
    /// A cache of `slots` of the numbers below `count`.
    pub fn new(slots: usize, count: usize) -> LruTwin {
        LruTwin { slots: slots.max(1), clock: 0, last: vec![None; count], order: BTreeMap::new() }
    }

    /// Asks for `number`, which is in the cache then; true if it was before.
    pub fn ask(&mut self, number: usize) -> bool {
        self.clock += 1;
        let before = self.last[number].replace(self.clock);
        match before {
            Some(use_before) => {
                self.order.remove(&use_before);
            }
            None if self.order.len() >= self.slots => {
                if let Some((_, oldest)) = self.order.pop_first() {
                    self.last[oldest] = None;
                }
            }
            None => {}
        }
        self.order.insert(self.clock, number);
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_a_list_in_order_of_use_finds() {
        let (mut twin, mut list, mut state) = (LruTwin::new(5, 12), Vec::<usize>::new(), 1_u64);
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 33) as usize % 12;
            let here = list.iter().position(|n| *n == number);
            if let Some(at) = here {
                list.remove(at);
            }
            list.push(number);
            if list.len() > 5 {
                list.remove(0);
            }
            assert_eq!(twin.ask(number), here.is_some());
        }
    }
}
