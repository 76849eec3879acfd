//! Greedy pair merging, the heart of BPE and of SentencePiece's BPE: of all neighbours that may join, the pair with
//! the lowest rank does (the leftmost of equals), until none may. A scan over the pairs is fastest for words; a
//! heap keeps one huge word from being quadratic.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of text that is one token so far; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub id: u32,
    /// Byte offset in the text.
    pub start: u32,
}

/// What two neighbours become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Lower joins first.
    pub rank: u32,
    pub id: u32,
}

/// Which neighbours may join. `text` is the bytes of both; a rule goes by the ids or by the text.
pub(crate) trait MergeRule {
    fn join(&self, left: u32, right: u32, text: &[u8]) -> Option<Join>;
}

/// Above this many symbols the heap is used. Measured on prose with one long word in it: the two meet at about 100.
const SHORT: usize = 100;

/// Merges `symbols` of `text` in place.
pub(crate) fn merge<R: MergeRule>(rule: &R, text: &[u8], symbols: &mut Vec<Symbol>) {
    if symbols.len() <= SHORT {
        merge_by_scan(rule, text, symbols)
    } else {
        merge_by_heap(rule, text, symbols)
    }
}

fn merge_by_scan<R: MergeRule>(rule: &R, text: &[u8], symbols: &mut Vec<Symbol>) {
    let look = |symbols: &[Symbol], at: usize| {
        let end = symbols.get(at + 2).map_or(text.len(), |s| s.start as usize);
        rule.join(symbols[at].id, symbols[at + 1].id, &text[symbols[at].start as usize..end])
    };
    let mut joins: Vec<Option<Join>> = (1..symbols.len()).map(|at| look(symbols, at - 1)).collect();
    loop {
        let ranked = joins.iter().enumerate().filter_map(|(at, join)| join.map(|join| (at, join)));
        let Some((at, join)) = ranked.min_by_key(|(_, join)| join.rank) else { return };
        symbols[at].id = join.id;
        symbols.remove(at + 1);
        joins.remove(at);
        if at > 0 {
            joins[at - 1] = look(symbols, at - 1);
        }
        if at < joins.len() {
            joins[at] = look(symbols, at);
        }
    }
}

const END: u32 = u32::MAX;
const NO_RANK: u32 = u32::MAX;

fn merge_by_heap<R: MergeRule>(rule: &R, text: &[u8], symbols: &mut Vec<Symbol>) {
    let mut chain = Chain::new(rule, text, symbols);
    while let Some(Reverse(key)) = chain.heap.pop() {
        let (rank, at) = ((key >> 32) as u32, key as u32);
        // An entry is stale when its left side was swallowed or its pair changed since.
        if chain.joins[at as usize].rank == rank {
            chain.join(rule, text, at);
        }
    }
    let mut kept = 0;
    let mut at = 0;
    while at != END {
        symbols[kept] = chain.symbols[at as usize];
        kept += 1;
        at = chain.next[at as usize];
    }
    symbols.truncate(kept);
}

/// The symbols as a linked list, with the best join of each with its right neighbour.
struct Chain {
    symbols: Vec<Symbol>,
    previous: Vec<u32>,
    next: Vec<u32>,
    joins: Vec<Join>,
    /// Rank above, position below: the order of a plain integer is the order of merging.
    heap: BinaryHeap<Reverse<u64>>,
}

impl Chain {
    fn new<R: MergeRule>(rule: &R, text: &[u8], symbols: &[Symbol]) -> Chain {
        let count = symbols.len() as u32;
        let mut chain = Chain {
            symbols: symbols.to_vec(),
            previous: (0..count).map(|at| at.wrapping_sub(1)).collect(),
            next: (1..=count).map(|at| if at == count { END } else { at }).collect(),
            joins: vec![Join { rank: NO_RANK, id: 0 }; symbols.len()],
            heap: BinaryHeap::new(),
        };
        let mut keys = Vec::new();
        for at in 0..count {
            keys.extend(chain.look(rule, text, at));
        }
        chain.heap = BinaryHeap::from(keys);
        chain
    }

    /// Updates the join of `at` with its right neighbour; the key to queue, if they may join.
    fn look<R: MergeRule>(&mut self, rule: &R, text: &[u8], at: u32) -> Option<Reverse<u64>> {
        let right = self.next[at as usize];
        let join = (right != END).then(|| {
            let after = self.next[right as usize];
            let end = if after == END { text.len() } else { self.symbols[after as usize].start as usize };
            let (left, right) = (self.symbols[at as usize], self.symbols[right as usize]);
            rule.join(left.id, right.id, &text[left.start as usize..end])
        });
        let join = join.flatten().unwrap_or(Join { rank: NO_RANK, id: 0 });
        self.joins[at as usize] = join;
        (join.rank != NO_RANK).then(|| Reverse(u64::from(join.rank) << 32 | u64::from(at)))
    }

    fn join<R: MergeRule>(&mut self, rule: &R, text: &[u8], at: u32) {
        let right = self.next[at as usize] as usize;
        self.symbols[at as usize].id = self.joins[at as usize].id;
        self.joins[right].rank = NO_RANK;
        let after = self.next[right];
        self.next[at as usize] = after;
        if after != END {
            self.previous[after as usize] = at;
        }
        let before = self.previous[at as usize];
        if before != END {
            let key = self.look(rule, text, before);
            self.heap.extend(key);
        }
        let key = self.look(rule, text, at);
        self.heap.extend(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ids are lengths; lengths join as a little table says.
    struct Table(Vec<Option<u32>>);

    impl MergeRule for Table {
        fn join(&self, left: u32, right: u32, text: &[u8]) -> Option<Join> {
            assert_eq!(text.len() as u32, left + right);
            let rank = *self.0.get((left * 7 + right * 3 + u32::from(text[0])) as usize % self.0.len())?;
            rank.map(|rank| Join { rank, id: left + right })
        }
    }

    fn singles(text: &[u8]) -> Vec<Symbol> {
        (0..text.len()).map(|at| Symbol { id: 1, start: at as u32 }).collect()
    }

    proptest! {
        #[test]
        fn the_heap_merges_as_the_scan_does(
            text in proptest::collection::vec(0u8..4, 0..60),
            table in proptest::collection::vec(proptest::option::of(0u32..5), 1..20),
        ) {
            let rule = Table(table);
            let (mut scan, mut heap) = (singles(&text), singles(&text));
            merge_by_scan(&rule, &text, &mut scan);
            if !heap.is_empty() {
                merge_by_heap(&rule, &text, &mut heap);
            }
            prop_assert_eq!(scan, heap);
        }
    }
}
