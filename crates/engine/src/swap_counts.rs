//! What became of preempted sequences whose memory was kept.

/// Sums since the engine was built; they never go down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SwapCounts {
    /// Preempted sequences whose memory was kept.
    pub kept: u64,
    /// Of these, sequences that went on where they were.
    pub returned: u64,
    /// Of these, sequences that were computed again, since something was missing.
    pub lost: u64,
    /// Pages and states that went out: others had taken their memory.
    pub parts_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
    /// Pages and states that came back.
    pub parts_in: u64,
    /// Bytes of these.
    pub bytes_in: u64,
    /// Seconds that the engine's thread copied them out and in.
    pub copy_seconds: f64,
    /// Seconds that sequences waited until all of theirs had come back, from their admission on.
    pub return_seconds: f64,
}

impl SwapCounts {
    /// What was added since `last`.
    pub fn since(self, last: SwapCounts) -> SwapCounts {
        SwapCounts {
            kept: self.kept.saturating_sub(last.kept),
            returned: self.returned.saturating_sub(last.returned),
            lost: self.lost.saturating_sub(last.lost),
            parts_out: self.parts_out.saturating_sub(last.parts_out),
            bytes_out: self.bytes_out.saturating_sub(last.bytes_out),
            parts_in: self.parts_in.saturating_sub(last.parts_in),
            bytes_in: self.bytes_in.saturating_sub(last.bytes_in),
            copy_seconds: (self.copy_seconds - last.copy_seconds).max(0.0),
            return_seconds: (self.return_seconds - last.return_seconds).max(0.0),
        }
    }
}
