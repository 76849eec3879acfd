//! The format of an entry: `LMNPAGE1`, key, lengths, proof, parts, checksum; integers are little-endian.

use std::{fmt, ops::Range};
use xxhash_rust::xxh3::xxh3_128;

/// Name of an entry: 128 bits of a hash over what it holds.
pub type Key = [u8; 16];

/// Most bytes of an entry that is read: a page of the largest models has some hundred megabytes.
pub(crate) const MOST_ENTRY: u64 = 2 << 30;
const MAGIC: &[u8; 8] = b"LMNPAGE1";
/// Magic, key, length of the proof, number of parts.
const FIXED: usize = 8 + 16 + 4 + 4;
const CHECKSUM: usize = 16;

/// Why the bytes of a file are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is cut off, or there is something behind it.
    Length,
    /// It begins as no entry does, or as one of a newer version.
    Magic,
    /// Some bit is not the one that was written.
    Checksum,
    /// It holds another key than its name says.
    Key,
    /// Who wrote it had another key than LAMINA_CACHE_KEY.
    Signature,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::Length => "it is cut off",
            Damage::Magic => "it begins as no entry does",
            Damage::Checksum => "its checksum is wrong",
            Damage::Key => "it belongs to another name",
            Damage::Signature => "it was not signed with LAMINA_CACHE_KEY",
        })
    }
}

/// Bytes under a key: a cache page of each layer group, or a recurrent state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    bytes: Vec<u8>,
    proof: Range<usize>,
    parts: Vec<Range<usize>>,
}

impl Entry {
    /// An entry of `parts`. `proof` is what the key was made of: readers compare it, so that a key that two contents
    /// share is harmless.
    pub fn new(key: &Key, proof: &[u8], parts: &[&[u8]]) -> Entry {
        let room: usize = parts.iter().map(|p| p.len() + 8).sum();
        let mut bytes = Vec::with_capacity(FIXED + proof.len() + room + CHECKSUM);
        bytes.extend(MAGIC);
        bytes.extend(key);
        bytes.extend((proof.len() as u32).to_le_bytes());
        bytes.extend((parts.len() as u32).to_le_bytes());
        parts.iter().for_each(|p| bytes.extend((p.len() as u64).to_le_bytes()));
        bytes.extend(proof);
        parts.iter().for_each(|p| bytes.extend(*p));
        let checksum = xxh3_128(&bytes);
        bytes.extend(checksum.to_le_bytes());
        let (proof, parts) = ranges(&bytes).expect("the lengths were just written");
        Entry { bytes, proof, parts }
    }

    /// Bytes of an entry with a proof and parts of these lengths.
    pub(crate) fn length(proof: usize, parts: impl Iterator<Item = usize>) -> usize {
        FIXED + proof + parts.map(|part| part + 8).sum::<usize>() + CHECKSUM
    }

    /// The entry that a file called `key` holds.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read(key: &Key, bytes: Vec<u8>) -> Result<Entry, Damage> {
        let entry = Entry::parse(bytes)?;
        if entry.key() == *key { Ok(entry) } else { Err(Damage::Key) }
    }

    /// The entry that `bytes` are, whatever its key.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: Vec<u8>) -> Result<Entry, Damage> {
        if bytes.len() < FIXED + CHECKSUM {
            return Err(Damage::Length);
        }
        if &bytes[..8] != MAGIC {
            return Err(Damage::Magic);
        }
        let (proof, parts) = ranges(&bytes).ok_or(Damage::Length)?;
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if xxh3_128(body).to_le_bytes() != *checksum {
            return Err(Damage::Checksum);
        }
        Ok(Entry { bytes, proof, parts })
    }

    /// Its name.
    pub fn key(&self) -> Key {
        let mut key = Key::default();
        key.copy_from_slice(&self.bytes[8..24]);
        key
    }

    /// What the key was made of.
    pub fn proof(&self) -> &[u8] {
        &self.bytes[self.proof.clone()]
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|p| &self.bytes[p.clone()])
    }

    /// The file holds a part more than the entry then.
    pub(crate) fn drop_last_part(&mut self) {
        self.parts.pop();
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are on their way to disk: those of an [`Entry`] before its checksum, which the writer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Its name.
    pub key: Key,
    /// What the key was made of.
    pub proof: Vec<u8>,
    /// The parts, in order.
    pub parts: Vec<Vec<u8>>,
}

impl Unwritten {
    /// Bytes of the entry that it becomes.
    pub(crate) fn entry_len(&self) -> usize {
        Entry::length(self.proof.len(), self.parts.iter().map(Vec::len))
    }

    /// Bytes that it takes in memory.
    pub(crate) fn len(&self) -> usize {
        self.proof.len() + self.parts.iter().map(Vec::len).sum::<usize>()
    }

    /// The entry that it becomes.
    pub fn entry(&self) -> Entry {
        let parts: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        Entry::new(&self.key, &self.proof, &parts)
    }
}

/// Where the proof and the parts lie; none where the lengths and that of the file do not agree.
fn ranges(bytes: &[u8]) -> Option<(Range<usize>, Vec<Range<usize>>)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let (proof, count) = (word(24)?, word(28)?);
    let lengths = bytes.get(FIXED..FIXED.checked_add(count.checked_mul(8)?)?)?;
    let mut at = FIXED + lengths.len();
    let mut next = |len: usize| {
        let range = at..at.checked_add(len)?;
        at = range.end;
        Some(range)
    };
    let proof = next(proof)?;
    let lengths = lengths.chunks_exact(8).map(|l| u64::from_le_bytes(l.try_into().expect("8 bytes")));
    let parts = lengths.map(|len| next(usize::try_from(len).ok()?)).collect::<Option<Vec<_>>>()?;
    (at.checked_add(CHECKSUM)? == bytes.len()).then_some((proof, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry::new(&[7; 16], b"tokens", &[&[1; 100], &[], &[2; 33]])
    }

    #[test]
    fn what_is_written_is_read() {
        let entry = entry();
        let read = Entry::read(&[7; 16], entry.bytes().to_vec()).expect("whole");
        assert_eq!(read, entry);
        assert_eq!(
            (read.proof(), read.parts().map(<[u8]>::len).collect::<Vec<_>>()),
            (&b"tokens"[..], vec![100, 0, 33])
        );
        assert_eq!(Entry::read(&[8; 16], entry.bytes), Err(Damage::Key));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let whole = entry().bytes;
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::read(&[7; 16], bytes).is_err(), "bit {bit}");
        }
        for len in 0..whole.len() {
            assert!(Entry::read(&[7; 16], whole[..len].to_vec()).is_err(), "{len} bytes");
        }
        assert_eq!(Entry::read(&[7; 16], [&whole[..], &[0]].concat()), Err(Damage::Length));
    }
}
