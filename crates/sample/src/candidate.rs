//! A token that may be chosen.

use std::cmp::Ordering;

/// A token, its logit, and its probability as of the last [`Candidates::softmax`](super::candidates::Candidates::softmax).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
    pub p: f32,
}

impl Candidate {
    /// Higher logit first, then lower id. NaN does not occur: [`Peak::of`](super::peak::Peak::of) has refused it.
    pub fn rank(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }

    /// Logit and id as one integer: comparing it takes no branch, which halves the time of a sort (150,000 candidates: 10.5 ms to 5.7).
    pub fn key(&self) -> u64 {
        let bits = (self.logit + 0.0).to_bits(); // -0.0 + 0.0 is 0.0
        let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        u64::from(!rising) << 32 | u64::from(self.id)
    }
}
