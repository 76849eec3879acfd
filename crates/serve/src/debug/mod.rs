//! What a server remembers of requests that have ended, and recordings of what its models do: for who asks why one was slow.

mod desk;
mod recent;
mod wire;

pub use desk::{TraceDesk, TraceRecording, TraceWish};
pub use recent::RecentRequests;
