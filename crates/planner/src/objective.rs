//! What requests are served for: soon, each of them, or all of them together.

/// What requests are served for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Each request soon: prompts wait for the answers that go on.
    #[default]
    Latency,
    /// All requests of a job: prompts take a step's rows before answers go on. Where weights are read from disk in every
    /// step, a job of many prompts takes the fewest steps so.
    Throughput,
}
