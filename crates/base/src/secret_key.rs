//! Keys that processes have in common, of which only what they prove leaves them.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// A key of at least sixteen bytes in hexadecimal. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Vec<u8>);

impl SecretKey {
    /// Characters that it has at least: below that it could be guessed.
    pub const LEAST: usize = 32;

    /// The key in a variable of this process's environment; none where that is missing or empty. Bytes that are no text make a
    /// key as well: to take none would be to trust everybody.
    ///
    /// # Errors
    /// How many characters it has, where these are too few.
    pub fn of_environment(variable: &str) -> Result<Option<SecretKey>, usize> {
        SecretKey::new(&std::env::var_os(variable).unwrap_or_default().into_encoded_bytes())
    }

    /// The key that these characters are, without spaces around them; none where there are none.
    ///
    /// # Errors
    /// How many they are, where these are too few.
    pub fn new(text: &[u8]) -> Result<Option<SecretKey>, usize> {
        match text.trim_ascii() {
            [] => Ok(None),
            short if short.len() < SecretKey::LEAST => Err(short.len()),
            key => Ok(Some(SecretKey(key.into()))),
        }
    }

    /// What only who has the key can say of these texts (HMAC of SHA-256). Their lengths are a part of it, so that none of them
    /// can be taken for a piece of its neighbour.
    pub fn mac(&self, texts: &[&[u8]]) -> [u8; 32] {
        self.said(texts).finalize().into_bytes().into()
    }

    /// True where `mac` is that of these texts. The time that it takes tells nothing.
    pub fn proves(&self, mac: &[u8], texts: &[&[u8]]) -> bool {
        self.said(texts).verify_slice(mac).is_ok()
    }

    fn said(&self, texts: &[&[u8]]) -> Hmac<Sha256> {
        let mut said = Hmac::new_from_slice(&self.0).expect("keys of every length");
        for text in texts {
            said.update(&(text.len() as u64).to_le_bytes());
            said.update(text);
        }
        said
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_of_one_key_and_of_these_texts() {
        let key = |letter: u8| SecretKey::new(&[letter; SecretKey::LEAST]).unwrap().unwrap();
        let mac = key(b'k').mac(&[b"a", b"bc"]);
        assert!(key(b'k').proves(&mac, &[b"a", b"bc"]) && !key(b'l').proves(&mac, &[b"a", b"bc"]));
        assert!(!key(b'k').proves(&mac, &[b"ab", b"c"]) && !key(b'k').proves(&mac[..31], &[b"a", b"bc"]));
        assert_eq!(format!("{:?}", key(b'k')), "SecretKey(..)");
        assert_eq!((SecretKey::new(b" \n"), SecretKey::new(b" short ")), (Ok(None), Err(5)));
    }
}
