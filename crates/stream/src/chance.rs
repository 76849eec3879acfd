//! Made traces of tests: repeatable chance, and experts that a token draws.

/// A linear congruential generator (Knuth's multiplier).
pub struct Chance(pub u64);

impl Chance {
    /// The next number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }
}

/// `count` experts that a token takes of a stack: some of those that are `kept`, and what `next` draws.
pub fn distinct(count: usize, mut kept: Vec<usize>, mut next: impl FnMut() -> usize) -> Vec<usize> {
    while kept.len() < count {
        let expert = next();
        if !kept.contains(&expert) {
            kept.push(expert);
        }
    }
    kept
}
