//! What happened in a store since it was opened, in numbers.

/// What happened since a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Entries that were found.
    pub hits: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Entries that were asked for and are not there.
    pub misses: u64,
    /// Entries that failed their checksum, and are gone.
    pub damaged: u64,
    /// Entries that were written.
    pub written: u64,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Entries that were not, because too many waited or the disk refused.
    pub dropped: u64,
    /// What the disk said last when it refused.
    pub failure: Option<String>,
}
