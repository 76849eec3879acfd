//! How much of a class of weights lies where.

/// Weights of one class, and how many of their bytes lie where, in the form of the kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassHome {
    /// `attention`, `ffn`, `experts`, `shared`, `head` or `embedding`, as rules of placement name them, or `other`.
    pub class: &'static str,
    /// Bytes in the memory of a device beside the host.
    pub device: u64,
    /// Bytes in memory: that of the host, or of the only device.
    pub memory: u64,
    /// Bytes on disk alone: of experts those that no slot has room for, of others what every step reads.
    pub disk: u64,
    /// Of those in memory and on disk, bytes that are sent to a device in every step.
    pub up: u64,
}
