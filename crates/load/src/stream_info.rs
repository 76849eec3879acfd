//! What is told of a model whose weights are read from disk.

use lamina_base::human_bytes;

/// What a user should know of a model that is streamed.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInfo {
    /// Bytes of weights in memory, of those that can be streamed.
    pub resident_bytes: u64,
    /// Bytes of weights that every step reads from disk.
    pub streamed_bytes: u64,
    /// Bytes of buffers.
    pub buffer_bytes: u64,
    /// Bytes of weights on disk, in the form of the kernels.
    pub panel_bytes: u64,
    /// Where they lie.
    pub folder: String,
    /// Reads go past the page cache.
    pub direct: bool,
}

impl StreamInfo {
    /// Bytes of memory that the weights do not take.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.streamed_bytes.saturating_sub(self.buffer_bytes)
    }

    /// What a user is told at load.
    pub fn note(&self) -> String {
        let all = self.resident_bytes + self.streamed_bytes;
        format!(
            "{} of {} of weights do not fit into memory and are read from disk in every step ({}); \
             more memory or a smaller type is faster",
            human_bytes(self.streamed_bytes),
            human_bytes(all),
            self.folder
        )
    }
}
