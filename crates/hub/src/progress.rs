//! Who watches while a model is fetched.

/// How far fetching is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PullProgress {
    /// The file that is fetched now, by its path in the repository.
    pub file: String,
    /// Bytes of all files that are here.
    pub done: u64,
    /// Bytes of all files, as far as they are known.
    pub size: u64,
    /// Bytes that came over the network this time.
    pub fetched: u64,
}

/// What is read of a model before the rest is fetched.
#[derive(Debug)]
pub enum ModelPreview<'a> {
    /// The first megabytes of a GGUF file.
    Gguf(&'a [u8]),
    /// `config.json` of a folder.
    Config(&'a str),
}

/// Watches while a model is fetched.
pub trait PullWatch {
    /// Hears what will be fetched, what is used in its place, and what could be meant: a line at a time.
    fn say(&self, _line: &str) {}

    /// Decides by its beginning whether a model is worth fetching.
    ///
    /// # Errors
    /// Why it is not.
    fn judge(&self, _preview: &ModelPreview<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Hears ten times in a second how far it is; false gives up.
    fn at(&self, _progress: &PullProgress) -> bool {
        true
    }
}

/// Nobody watches.
impl PullWatch for () {}
