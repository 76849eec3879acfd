//! Who watches while a model is fetched.

/// How far fetching is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PullProgress {
    /// The file that is fetched now, by its path in the repository.
    pub file: String,
    /// Its checksum as `sha256:..`, where the hub tells it before.
    pub digest: Option<String>,
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

/// What is known of a model before it is fetched.
#[derive(Debug, Clone, Default)]
pub struct BegunModel {
    /// `config.json` of a folder; none: its files are GGUF.
    pub config: Option<String>,
    /// The files of its weights, in their order.
    pub files: Vec<BegunFile>,
}

/// The beginning of a file.
#[derive(Debug, Clone)]
pub struct BegunFile {
    /// Inside of the repository.
    pub path: String,
    /// Bytes of all of it.
    pub size: u64,
    /// The first ones.
    pub bytes: Vec<u8>,
}

/// Whether a model fits into memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FitAnswer {
    /// In words.
    Told(String),
    /// To tell it, so many bytes of the file of that number are needed.
    Wants {
        /// From 0.
        file: usize,
        /// From its first one.
        bytes: u64,
    },
    /// That cannot be told.
    Unknown,
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

    /// Tells by the beginnings of its files whether a model fits into memory.
    fn fits(&self, _begun: &BegunModel) -> FitAnswer {
        FitAnswer::Unknown
    }

    /// Hears ten times in a second how far it is; false gives up.
    fn at(&self, _progress: &PullProgress) -> bool {
        true
    }
}

/// Nobody watches.
impl PullWatch for () {}
