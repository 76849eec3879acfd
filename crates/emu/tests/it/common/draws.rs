//! Numbers by chance, the same in every run.

use lamina_fixtures::Numbers;

/// Even numbers in `0..n`.
pub fn draws(seed: u64, n: u64) -> impl Iterator<Item = u64> {
    let mut numbers = Numbers::seeded(seed);
    std::iter::repeat_with(move || (numbers.word() >> 33) % n)
}
