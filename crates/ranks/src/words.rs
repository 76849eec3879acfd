//! Lists of numbers as bytes: 32-bit words in little endian, each list behind its length.

use crate::{RankError, Result};
use std::sync::Arc;

// Numbers are copied as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"), "rows go over the network in little endian");

/// Writes lists.
#[derive(Debug, Default)]
pub struct WordWriter(Vec<u8>);

impl WordWriter {
    /// Writes in the place of `bytes`, whose memory is taken.
    pub fn over(bytes: &mut Vec<u8>) -> WordWriter {
        bytes.clear();
        WordWriter(std::mem::take(bytes))
    }

    /// Writes one word.
    pub fn one(&mut self, word: u32) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// Writes words and how many there are.
    pub fn list(&mut self, words: impl ExactSizeIterator<Item = u32>) {
        self.one(words.len() as u32);
        words.for_each(|word| self.one(word));
    }

    /// Writes numbers and how many there are.
    pub fn numbers(&mut self, numbers: &[f32]) {
        self.one(numbers.len() as u32);
        self.more(numbers);
    }

    /// Writes numbers behind a count that was written before.
    pub fn more(&mut self, numbers: &[f32]) {
        self.0.extend_from_slice(bytemuck::cast_slice(numbers));
    }

    /// All that was written.
    pub fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what a [`WordWriter`] wrote.
#[derive(Debug)]
pub struct WordReader<'a>(&'a [u8]);

impl<'a> WordReader<'a> {
    /// Reads from the first of these bytes on.
    pub fn new(bytes: &'a [u8]) -> WordReader<'a> {
        WordReader(bytes)
    }

    /// One word.
    ///
    /// # Errors
    /// When none is left.
    pub fn one(&mut self) -> Result<u32> {
        let (word, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    /// A list.
    ///
    /// # Errors
    /// When it is longer than what is left.
    pub fn list(&mut self) -> Result<Vec<u32>> {
        Ok(bytemuck::pod_collect_to_vec(self.counted()?))
    }

    /// Bytes of as many words as the next one says.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn counted(&mut self) -> Result<&'a [u8]> {
        let count = self.one()? as usize;
        let (list, rest) = count.checked_mul(4).and_then(|b| self.0.split_at_checked(b)).ok_or_else(short)?;
        self.0 = rest;
        Ok(list)
    }

    /// Numbers.
    ///
    /// # Errors
    /// When there are fewer than their count says.
    pub fn numbers(&mut self) -> Result<Vec<f32>> {
        Ok(bytemuck::pod_collect_to_vec(self.counted()?))
    }

    /// Numbers that clones share.
    ///
    /// # Errors
    /// When there are fewer than their count says.
    pub fn shared_numbers(&mut self) -> Result<Arc<[f32]>> {
        Ok(self.numbers()?.into())
    }

    /// Ends reading.
    ///
    /// # Errors
    /// When something is left.
    pub fn end(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(RankError::Frame("a message is too long".into())) }
    }
}

fn short() -> RankError {
    RankError::Frame("a message is too short".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let mut w = WordWriter::default();
        w.one(7);
        w.list([1, u32::MAX].into_iter());
        w.numbers(&[0.5, f32::NEG_INFINITY]);
        let bytes = w.bytes();
        let read = |bytes: &[u8]| {
            let mut r = WordReader::new(bytes);
            let all = (r.one()?, r.list()?, r.numbers()?);
            r.end().map(|()| all)
        };
        assert_eq!(read(&bytes).unwrap(), (7, vec![1, u32::MAX], vec![0.5, f32::NEG_INFINITY]));
        assert!((0..bytes.len()).all(|len| read(&bytes[..len]).is_err()));
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
        assert!(read(&[7, 0, 0, 0, 255, 255, 255, 255, 1]).is_err(), "a list longer than all memory");
    }
}
