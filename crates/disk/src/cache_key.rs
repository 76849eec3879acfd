//! The key of a folder of cached prompts that others may write to: who has it alone can add what those with it read.
//!
//! Entries are called by an HMAC of their names, so that processes without the key, or with another one, never meet them; and
//! have a part more, an HMAC (SHA-256) of all that they hold. An entry that somebody else put in the place of one is damaged.

use crate::entry::{Damage, Entry, Key, Unwritten};
use lamina_base::SecretKey;

/// What is made with it: neither can be taken for the other.
const NAME: &[u8] = b"lamina cache name";
const CONTENT: &[u8] = b"lamina cache entry";

/// The key of a folder of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey(SecretKey);

impl CacheKey {
    /// The environment variable that has it.
    pub const VARIABLE: &'static str = "LAMINA_CACHE_KEY";

    /// The key of this process's environment; none where it has none.
    ///
    /// # Errors
    /// How many characters it has, where these are too few.
    pub fn of_environment() -> Result<Option<CacheKey>, usize> {
        Ok(SecretKey::of_environment(CacheKey::VARIABLE)?.map(CacheKey))
    }

    /// The key that `text` is; none where it is empty.
    ///
    /// # Errors
    /// How many characters it has, where these are too few.
    pub fn new(text: &str) -> Result<Option<CacheKey>, usize> {
        Ok(SecretKey::new(text.as_bytes())?.map(CacheKey))
    }

    /// What the entry `key` is called.
    pub fn name(&self, key: &Key) -> Key {
        let mut name = Key::default();
        name.iter_mut().zip(self.0.mac(&[NAME, key])).for_each(|(byte, said)| *byte = said);
        name
    }

    /// The entry under its name, signed.
    pub(crate) fn sign(&self, mut entry: Unwritten) -> Unwritten {
        entry.key = self.name(&entry.key);
        let parts: Vec<&[u8]> = entry.parts.iter().map(Vec::as_slice).collect();
        let signature = self.0.mac(&content(&entry.key, &entry.proof, &parts)).to_vec();
        entry.parts.push(signature);
        entry
    }

    /// The entry without its signature.
    ///
    /// # Errors
    /// When it was not signed with this key.
    pub(crate) fn open(&self, mut entry: Entry) -> Result<Entry, Damage> {
        let parts: Vec<&[u8]> = entry.parts().collect();
        let (signature, parts) = parts.split_last().ok_or(Damage::Signature)?;
        if !self.0.proves(signature, &content(&entry.key(), entry.proof(), parts)) {
            return Err(Damage::Signature);
        }
        entry.drop_last_part();
        Ok(entry)
    }
}

/// All that is signed of an entry.
fn content<'a>(name: &'a Key, proof: &'a [u8], parts: &[&'a [u8]]) -> Vec<&'a [u8]> {
    [&[CONTENT, name, proof], parts].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(letter: &str) -> CacheKey {
        CacheKey::new(&letter.repeat(SecretKey::LEAST)).expect("long enough").expect("a key")
    }

    fn unwritten() -> Unwritten {
        Unwritten { key: [7; 16], proof: b"tokens".to_vec(), parts: vec![vec![1; 100], vec![], vec![2; 33]] }
    }

    #[test]
    fn what_is_signed_is_read_with_the_key_alone() {
        let (own, plain) = (key("k"), unwritten());
        let signed = own.sign(plain.clone());
        assert_eq!(signed.key, own.name(&plain.key));
        assert!(signed.key != plain.key && signed.key != key("l").name(&plain.key));
        let opened = own.open(signed.entry()).expect("signed");
        assert_eq!(
            opened.parts().collect::<Vec<_>>(),
            plain.parts.iter().map(Vec::as_slice).collect::<Vec<_>>()
        );
        assert_eq!(opened.proof(), plain.proof);
        assert_eq!(key("l").open(signed.entry()), Err(Damage::Signature));
        assert_eq!(own.open(unwritten().entry()), Err(Damage::Signature), "not signed at all");
        assert_eq!(own.open(Unwritten { parts: vec![], ..plain }.entry()), Err(Damage::Signature));
    }

    /// Whoever may write makes a right checksum, and no signature.
    #[test]
    fn every_part_is_signed() {
        let (own, signed) = (key("k"), key("k").sign(unwritten()));
        let mut changed = signed.clone();
        changed.parts[2][3] ^= 1;
        let mut moved = signed.clone();
        let last = moved.parts[2].pop().expect("a byte");
        moved.parts[1].push(last);
        let renamed = Unwritten { key: [8; 16], ..signed.clone() };
        let proven = Unwritten { proof: b"token".to_vec(), ..signed };
        for forged in [changed, moved, renamed, proven] {
            assert_eq!(own.open(forged.entry()), Err(Damage::Signature));
        }
    }
}
