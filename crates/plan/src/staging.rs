//! Weights that are copied to a device while it multiplies with others.

use crate::slot::WeightId;
use lamina_base::Bytes;
use std::ops::Range;

/// Weights in a staging slot begin at multiples of so many bytes: kernels of all devices read them there.
const ALIGNED: usize = 256;

/// Matrices of a weight that follow one another, and lie so in the host's memory.
#[derive(Clone, Debug)]
pub struct SentMatrices {
    /// Which of the weight's matrices.
    pub pieces: Range<usize>,
    /// Their bytes, in the form that [`Panels::layout`](crate::Panels::layout) describes.
    pub bytes: Bytes,
}

/// A weight that is copied to a staging slot ([`Queue::send`](crate::Queue::send)).
#[derive(Clone, Debug)]
pub struct SentWeight {
    /// The weight.
    pub weight: WeightId,
    /// Its matrices: one, or those of a stack. Each has its place in the slot, copied or not, one behind the other.
    pub pieces: usize,
    /// Bytes of all of them.
    pub len: usize,
    /// What is copied: of a stack maybe some matrices alone, and then no operator multiplies with others.
    pub parts: Vec<SentMatrices>,
}

impl SentWeight {
    /// The place of matrices `pieces` among the bytes of the weight.
    pub fn place(&self, pieces: &Range<usize>) -> Range<usize> {
        let each = self.len / self.pieces.max(1);
        pieces.start * each..pieces.end * each
    }

    /// Each matrix that is copied, with its bytes.
    pub fn matrices(&self) -> impl Iterator<Item = (usize, Bytes)> {
        let each = self.len / self.pieces.max(1);
        self.parts.iter().flat_map(move |part| {
            let first = part.pieces.start;
            let bytes = move |i: usize| part.bytes.slice((i - first) * each..(i - first + 1) * each);
            part.pieces.clone().filter_map(move |i| Some((i, bytes(i)?)))
        })
    }

    /// How many bytes are copied.
    pub fn copied_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
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
    fn matrices_have_the_bytes_of_their_part_and_a_place_of_their_own() {
        let part = |pieces: Range<usize>, byte: u8| {
            let bytes = pieces.clone().flat_map(|i| [byte + i as u8; 5]).collect::<Vec<u8>>();
            SentMatrices { pieces, bytes: Bytes::from(bytes) }
        };
        let parts = vec![part(0..1, 10), part(2..4, 20), part(7..8, 30)];
        let sent = SentWeight { weight: WeightId(0), pieces: 8, len: 40, parts };
        assert_eq!((sent.copied_bytes(), sent.place(&(2..4))), (20, 10..20));
        let copies: Vec<(usize, Vec<u8>)> = sent.matrices().map(|(i, bytes)| (i, bytes.to_vec())).collect();
        assert_eq!(copies, [(0, vec![10; 5]), (2, vec![22; 5]), (3, vec![23; 5]), (7, vec![37; 5])]);
        assert_eq!(SentWeight { parts: vec![], ..sent }.copied_bytes(), 0);
    }
}
