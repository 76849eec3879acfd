//! What the host has of a weight that a device multiplies with.

use lamina_base::Bytes;
use lamina_plan::{SentMatrices, SentWeight, WeightId};

/// A weight that the host has and the device multiplies with.
#[derive(Clone, Debug)]
pub(crate) struct HostCopy {
    /// Its matrices: one, or those of a stack.
    pieces: usize,
    /// Bytes of all of them in the device's form.
    len: usize,
    bytes: HostBytes,
}

/// Where the bytes of a weight are.
#[derive(Clone, Debug)]
enum HostBytes {
    /// All matrices in memory for good, one behind the other.
    Whole(Bytes),
    /// Each matrix by itself; none of one that is on disk.
    Apart(Vec<Option<Bytes>>),
}

impl HostCopy {
    /// Of a weight in memory.
    pub fn whole(pieces: usize, bytes: Bytes) -> HostCopy {
        HostCopy { pieces, len: bytes.len(), bytes: HostBytes::Whole(bytes) }
    }

    /// Of a weight of `len` bytes on disk.
    pub fn away(pieces: usize, len: usize) -> HostCopy {
        HostCopy { pieces, len, bytes: HostBytes::Apart(vec![None; pieces]) }
    }

    /// Bytes of all matrices, wherever they are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What is in memory for good.
    pub fn resident(&self) -> Option<&Bytes> {
        match &self.bytes {
            HostBytes::Whole(bytes) => Some(bytes),
            HostBytes::Apart(_) => None,
        }
    }

    /// True where all of it is in memory and stays until it is used: experts from disk go for others.
    pub fn is_whole(&self) -> bool {
        match &self.bytes {
            HostBytes::Whole(_) => true,
            HostBytes::Apart(all) => matches!(&all[..], [Some(_)]),
        }
    }

    /// A matrix of a weight on disk is there from now on, or not at all.
    pub fn bind(&mut self, piece: usize, bytes: Option<&Bytes>) {
        if let HostBytes::Apart(all) = &mut self.bytes
            && let Some(one) = all.get_mut(piece)
        {
            *one = bytes.cloned();
        }
    }

    /// Matrices `some`, ascending, or all, on their way to the device; none where one of them is on disk.
    pub fn sent(&self, weight: WeightId, some: Option<&[usize]>) -> Option<SentWeight> {
        let parts = match (&self.bytes, some) {
            (HostBytes::Whole(bytes), None) => {
                vec![SentMatrices { pieces: 0..self.pieces, bytes: bytes.clone() }]
            }
            (HostBytes::Whole(bytes), Some(some)) => self.cut(bytes, some)?,
            (HostBytes::Apart(all), some) => {
                let one = |piece: usize| {
                    Some(SentMatrices { pieces: piece..piece + 1, bytes: all.get(piece)?.clone()? })
                };
                match some {
                    Some(some) => some.iter().map(|&piece| one(piece)).collect::<Option<_>>()?,
                    None => (0..self.pieces).map(one).collect::<Option<_>>()?,
                }
            }
        };
        Some(SentWeight { weight, pieces: self.pieces, len: self.len, parts })
    }

    /// Matrices `some` of all in `bytes`, those that follow one another as one part.
    fn cut(&self, bytes: &Bytes, some: &[usize]) -> Option<Vec<SentMatrices>> {
        let each = self.len / self.pieces.max(1);
        let runs = some.chunk_by(|a, b| a + 1 == *b);
        let part = |run: &[usize]| {
            let pieces = *run.first()?..run.last()? + 1;
            Some(SentMatrices { bytes: bytes.slice(pieces.start * each..pieces.end * each)?, pieces })
        };
        runs.map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn parts(sent: Option<SentWeight>) -> Option<Vec<(Range<usize>, Vec<u8>)>> {
        Some(sent?.parts.into_iter().map(|part| (part.pieces, part.bytes.to_vec())).collect())
    }

    #[test]
    fn matrices_in_memory_that_follow_one_another_are_sent_as_one() {
        let copy = HostCopy::whole(4, Bytes::from((0..8).collect::<Vec<u8>>()));
        let told = parts(copy.sent(WeightId(0), Some(&[0, 2, 3])));
        assert_eq!(told, Some(vec![(0..1, vec![0, 1]), (2..4, vec![4, 5, 6, 7])]));
        assert_eq!(parts(copy.sent(WeightId(0), Some(&[]))), Some(vec![]));
        assert_eq!(parts(copy.sent(WeightId(0), None)), Some(vec![(0..4, (0..8).collect())]));
        assert!(copy.is_whole() && copy.resident().is_some());
    }

    #[test]
    fn one_matrix_is_whole_while_it_is_bound() {
        let mut copy = HostCopy::away(1, 2);
        copy.bind(0, Some(&Bytes::from(vec![1, 2])));
        assert!(copy.is_whole() && copy.resident().is_none());
        copy.bind(0, None);
        assert!(!copy.is_whole());
    }

    #[test]
    fn matrices_on_disk_are_sent_once_they_are_bound() {
        let mut copy = HostCopy::away(3, 6);
        assert!(copy.sent(WeightId(0), Some(&[1])).is_none() && copy.resident().is_none());
        copy.bind(1, Some(&Bytes::from(vec![7, 8])));
        assert_eq!(parts(copy.sent(WeightId(0), Some(&[1]))), Some(vec![(1..2, vec![7, 8])]));
        assert!(copy.sent(WeightId(0), None).is_none());
        (0..3).for_each(|piece| copy.bind(piece, Some(&Bytes::from(vec![piece as u8; 2]))));
        assert!(!copy.is_whole() && copy.sent(WeightId(0), None).is_some());
        copy.bind(0, None);
        assert!(copy.sent(WeightId(0), Some(&[0, 1])).is_none());
    }
}
