//! The key that processes of one app have in common, on several machines: a gateway and the replicas that others start, a model
//! and the ranks of its stages. It never leaves them: what goes between them are proofs that the other side has it too.

use lamina_base::SecretKey;

/// The key of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppKey(SecretKey);

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppKeyError {
    /// Nobody gave one.
    #[error(
        "machines that answer together share a key: set LAMINA_APP_KEY to the same text for all, such as that of `openssl rand -hex 32`"
    )]
    Missing,
    /// It could be guessed.
    #[error(
        "LAMINA_APP_KEY has {0} characters, but needs {least}: take the text of `openssl rand -hex 32`",
        least = SecretKey::LEAST
    )]
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
        AppKey::of(SecretKey::new(text.as_bytes()))
    }

    /// The key of this process's environment.
    ///
    /// # Errors
    /// When there is none, or it is too short.
    pub fn of_environment() -> Result<AppKey, AppKeyError> {
        AppKey::of(SecretKey::of_environment(AppKey::VARIABLE))
    }

    fn of(key: Result<Option<SecretKey>, usize>) -> Result<AppKey, AppKeyError> {
        key.map_err(AppKeyError::Short)?.map(AppKey).ok_or(AppKeyError::Missing)
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

    /// What only who has the key can say of these texts, in hexadecimal.
    pub fn proof(&self, texts: &[&str]) -> String {
        self.0.mac(&bytes_of(texts)).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// True where somebody with the key says this of these texts. The time that it takes tells nothing.
    pub fn proves(&self, proof: &str, texts: &[&str]) -> bool {
        let byte = |at: usize| u8::from_str_radix(proof.get(at..at + 2)?, 16).ok();
        let mac: Option<Vec<u8>> = (0..proof.len()).step_by(2).map(byte).collect();
        mac.is_some_and(|mac| self.0.proves(&mac, &bytes_of(texts)))
    }
}

fn bytes_of<'a>(texts: &[&'a str]) -> Vec<&'a [u8]> {
    texts.iter().map(|text| text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_of_one_key_and_of_these_texts() {
        let key = AppKey::new(&"k".repeat(SecretKey::LEAST)).unwrap();
        let proof = key.proof(&["a", "bc"]);
        assert!(key.proves(&proof, &["a", "bc"]));
        assert!(!key.proves(&proof, &["ab", "c"]) && !key.proves("", &["a", "bc"]));
        assert!(!AppKey::new(&"l".repeat(SecretKey::LEAST)).unwrap().proves(&proof, &["a", "bc"]));
        assert!(!key.proves("é", &["a", "bc"]) && !key.proves(&proof[..63], &["a", "bc"]));
        assert_eq!(format!("{key:?}"), "AppKey(SecretKey(..))");
        assert_eq!(AppKey::new(" \n"), Err(AppKeyError::Missing));
        assert_eq!(AppKey::new("short"), Err(AppKeyError::Short(5)));
    }
}
