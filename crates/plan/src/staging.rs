//! Weights that are copied to a device while it multiplies with others.

use crate::slot::WeightId;
use lamina_base::Bytes;
use std::{ops::Range, sync::Arc};

/// Weights in a staging slot begin at multiples of so many bytes: kernels of all devices read them there.
const ALIGNED: usize = 256;

/// A weight that is copied to a staging slot ([`Queue::send`](crate::Queue::send)).
#[derive(Clone, Debug)]
pub struct SentWeight {
    /// The weight.
    pub weight: WeightId,
    /// Its matrices: one, or those of a stack.
    pub pieces: usize,
    /// Of a stack, the matrices that are copied, ascending: no operator multiplies with others. None: all of them.
    pub some: Option<Arc<[usize]>>,
    /// All of them, one behind the other, in the form that [`Backend::layout`](crate::Backend::layout) describes. Each has
    /// its place in the slot, copied or not.
    pub bytes: Bytes,
}

impl SentWeight {
    /// The matrices that are copied, ascending.
    pub fn copied(&self) -> Vec<usize> {
        self.some.as_ref().map_or_else(|| (0..self.pieces).collect(), |some| some.to_vec())
    }

    /// Bytes of matrix `piece`.
    pub fn piece(&self, piece: usize) -> Range<usize> {
        let each = self.bytes.len() / self.pieces.max(1);
        piece * each..(piece + 1) * each
    }

    /// Bytes that are copied, those of matrices that follow one another as one range.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = vec![];
        for piece in self.copied().into_iter().map(|piece| self.piece(piece)) {
            match ranges.last_mut().filter(|last| last.end == piece.start) {
                Some(last) => last.end = piece.end,
                None => ranges.push(piece),
            }
        }
        ranges
    }

    /// How many bytes are copied.
    pub fn copied_bytes(&self) -> usize {
        self.ranges().iter().map(Range::len).sum()
    }
}

/// Bytes of a staging slot that a weight of `bytes` bytes takes.
pub fn staged_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_that_follow_one_another_are_copied_as_one() {
        let bytes = Bytes::from(vec![0; 40]);
        let of = |some: Option<&[usize]>| {
            let some = some.map(Arc::from);
            SentWeight { weight: WeightId(0), pieces: 8, some, bytes: bytes.clone() }
        };
        let some = of(Some(&[0, 2, 3, 7]));
        assert_eq!((some.ranges(), some.copied_bytes()), (vec![0..5, 10..20, 35..40], 20));
        assert_eq!((of(None).ranges().len(), of(None).copied_bytes(), of(None).copied().len()), (1, 40, 8));
        assert!(of(Some(&[])).ranges().is_empty());
    }
}
