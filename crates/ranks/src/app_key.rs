//! The key that processes of one app have in common, on several machines: a gateway and the replicas that others start, a model
//! and the ranks of its stages. It never leaves them: what goes between them are proofs that the other side has it too.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

/// Characters that it has at least: sixteen bytes in hexadecimal.
const LEAST: usize = 32;

/// The key of an app. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AppKey(String);

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppKeyError {
    /// Nobody gave one.
    #[error(
        "machines that answer together share a key: set LAMINA_APP_KEY to the same text for all, such as that of `openssl rand -hex 32`"
    )]
    Missing,
    /// It could be guessed.
    #[error("LAMINA_APP_KEY has {0} characters, but needs {LEAST}: take the text of `openssl rand -hex 32`")]
    Short(usize),
}

impl AppKey {
    /// The environment variable that has it.
    pub const VARIABLE: &'static str = "LAMINA_APP_KEY";

    /// A key of at least 32 characters.
    ///
    /// # Errors
    /// When it is shorter.
    pub fn new(text: &str) -> Result<AppKey, AppKeyError> {
        match text.trim() {
            "" => Err(AppKeyError::Missing),
            text if text.len() < LEAST => Err(AppKeyError::Short(text.len())),
            text => Ok(AppKey(text.to_owned())),
        }
    }

    /// The key of this process's environment.
    ///
    /// # Errors
    /// When there is none, or it is too short.
    pub fn of_environment() -> Result<AppKey, AppKeyError> {
        AppKey::new(&std::env::var(AppKey::VARIABLE).unwrap_or_default())
    }

    /// The key of this process's environment; none is needed where all of an app is `local`, on this machine.
    ///
    /// # Errors
    /// When it is missing and needed, or too short.
    pub fn of_environment_unless(local: bool) -> Result<Option<AppKey>, AppKeyError> {
        match AppKey::of_environment() {
            Err(AppKeyError::Missing) if local => Ok(None),
            found => found.map(Some),
        }
    }

    /// What only who has the key can say of these texts, in hexadecimal. Their lengths are a part of what is proven, so
    /// that none of them can be taken for a piece of its neighbour.
    pub fn proof(&self, texts: &[&str]) -> String {
        let mut said = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("keys of every length");
        for text in texts {
            said.update(&(text.len() as u64).to_le_bytes());
            said.update(text.as_bytes());
        }
        said.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// True where somebody with the key says this of these texts. The time that it takes tells nothing.
    pub fn proves(&self, proof: &str, texts: &[&str]) -> bool {
        proof.as_bytes().ct_eq(self.proof(texts).as_bytes()).into()
    }
}

impl fmt::Debug for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_of_one_key_and_of_these_texts() {
        let key = AppKey::new(&"k".repeat(LEAST)).unwrap();
        let proof = key.proof(&["a", "bc"]);
        assert!(key.proves(&proof, &["a", "bc"]));
        assert!(!key.proves(&proof, &["ab", "c"]) && !key.proves("", &["a", "bc"]));
        assert!(!AppKey::new(&"l".repeat(LEAST)).unwrap().proves(&proof, &["a", "bc"]));
        assert_eq!(format!("{key:?}"), "AppKey(..)");
        assert_eq!(AppKey::new(" \n"), Err(AppKeyError::Missing));
        assert_eq!(AppKey::new("short"), Err(AppKeyError::Short(5)));
    }
}
