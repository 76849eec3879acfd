//! Sparse attention: rows that read less than all they see. Approximations, which only a user asks for.

/// Positions of a block of keys that rows of a prompt attend to as a whole, or not at all.
///
/// Two pages: blocks of one page would rescale the running softmax twice as often, and larger ones keep more that nobody
/// looks at.
pub const SPARSE_BLOCK: usize = 64;

/// A share of what could be read: above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadShare(f64);

impl ReadShare {
    /// The share, if it is one.
    pub fn new(share: f64) -> Option<ReadShare> {
        (share > 0.0 && share < 1.0).then_some(ReadShare(share))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// That share of `n`, rounded down.
    pub fn floor(self, n: usize) -> usize {
        (self.0 * n as f64) as usize
    }

    /// That share of `n`, rounded up.
    pub fn ceil(self, n: usize) -> usize {
        (self.0 * n as f64).ceil() as usize
    }
}

/// What rows of an attention leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionSparsity {
    /// Decode rows read few values: FlexGen's sparse attention (arXiv 2303.06865).
    ///
    /// Of the `n` cells that a row sees, the newest one (its own) and those `floor(share * (n - 1))` of the others are mixed
    /// whose softmax weights, summed over the query heads of the key head, are largest; of equal ones the lower. Weights
    /// are those of the softmax over all cells.
    pub values: Option<ReadShare>,
    /// Rows of a prompt attend to few blocks of [`SPARSE_BLOCK`] cells: block top-k by pooled keys, chosen row by row as in
    /// MoBA (arXiv 2502.13189).
    ///
    /// A row in block `b` attends to the blocks 0 (attention sinks), `b - 1` and `b` (the local window), and to those
    /// `ceil(share * (b - 2))` of the others before it that have the largest mass; of equal ones the lower. The mass of a
    /// block is the softmax over these others of the scaled product of the query with the mean of the block's stored keys,
    /// summed over the query heads of the key head. The softmax runs over the cells of these blocks. Sequences whose cells
    /// are not in order attend to all.
    pub prefill: Option<ReadShare>,
}

impl AttentionSparsity {
    /// Nothing is left out.
    pub const NONE: AttentionSparsity = AttentionSparsity { values: None, prefill: None };

    /// True when nothing is left out.
    pub fn is_none(&self) -> bool {
        *self == AttentionSparsity::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_as_they_are_defined() {
        assert_eq!([0.0, 1.0, -0.5, f64::NAN].map(ReadShare::new), [None; 4]);
        let tenth = ReadShare::new(0.1).expect("a share");
        assert_eq!([0, 9, 10, 19, 8191].map(|n| tenth.floor(n)), [0, 0, 1, 1, 819]);
        assert_eq!([0, 1, 10, 11].map(|n| tenth.ceil(n)), [0, 1, 1, 2]);
    }
}
