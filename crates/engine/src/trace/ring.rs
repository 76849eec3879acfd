//! A list of fixed memory: the oldest entries make room for new ones.

/// Memory is taken when it is made, and never again.
pub(crate) struct EventRing<T> {
    items: Vec<T>,
    most: usize,
    /// Where the oldest one is, once all places are taken.
    oldest: usize,
    /// How many were dropped.
    pub dropped: u64,
}

impl<T: Copy> EventRing<T> {
    /// Room for `most` entries.
    pub fn new(most: usize) -> EventRing<T> {
        EventRing { items: Vec::with_capacity(most), most, oldest: 0, dropped: 0 }
    }

    /// Adds an entry, in the place of the oldest one where all are taken.
    pub fn push(&mut self, item: T) {
        if self.items.len() < self.most {
            self.items.push(item);
        } else if let Some(place) = self.items.get_mut(self.oldest) {
            *place = item;
            self.oldest = (self.oldest + 1) % self.most;
            self.dropped += 1;
        }
    }

    /// A copy of all entries, oldest first.
    pub fn list(&self) -> Vec<T> {
        let (new, old) = self.items.split_at(self.oldest);
        [old, new].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_memory_stays() {
        let mut ring = EventRing::new(3);
        let capacity = ring.items.capacity();
        (0..3).for_each(|i| ring.push(i));
        assert_eq!((ring.list(), ring.dropped), (vec![0, 1, 2], 0));
        (3..100_001).for_each(|i| ring.push(i));
        assert_eq!((ring.list(), ring.dropped), (vec![99_998, 99_999, 100_000], 99_998));
        assert_eq!(ring.items.capacity(), capacity);
        let mut none = EventRing::new(0);
        none.push(1);
        assert!(none.list().is_empty());
    }
}
