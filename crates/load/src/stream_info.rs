//! What is told of a model whose weights are read from disk.

use lamina_base::human_bytes;
use lamina_disk::ReaderKind;

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
    /// How it is read.
    pub reader: ReaderKind,
    /// Experts that are read as rows ask for them; none where all are in memory.
    pub experts: Option<StreamedExperts>,
}

/// Experts of a model that are not in memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedExperts {
    /// In memory, over all layers.
    pub slots: usize,
    /// All of them.
    pub count: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes of one in memory.
    pub slot_bytes: u64,
}

impl StreamInfo {
    /// What a user is told at load.
    pub fn note(&self) -> String {
        let all = self.resident_bytes + self.streamed_bytes;
        let dense = (self.streamed_bytes > 0).then(|| {
            let (some, all) = (human_bytes(self.streamed_bytes), human_bytes(all));
            format!("{some} of {all} of weights do not fit into memory and are read from disk in every step")
        });
        let experts = self.experts.map(|e| {
            format!(
                "{} of {} experts are in memory, the others ({} in all) are read from disk when tokens ask for them",
                e.slots,
                e.count,
                human_bytes(e.bytes)
            )
        });
        let told: Vec<_> = dense.into_iter().chain(experts).collect();
        format!("{} ({}); more memory or a smaller type is faster", told.join("; "), self.folder)
    }
}
