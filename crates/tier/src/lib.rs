//! Floor 5: models larger than memory - which weights stay in memory, and the others read from disk while they are used.
//!
//! [`place`] decides once which rows of which matrices are resident and cuts the plan accordingly; [`Streamed`] is a
//! backend around another one, whose machine has a [`Prefetcher`] read ahead and binds what has arrived before each
//! operator. It knows no backend by name.
#![forbid(unsafe_code)]

mod place;
mod prefetch;
mod streamed;

pub use place::{Placement, StreamedOp, place};
pub use prefetch::Prefetcher;
pub use streamed::{StreamExtent, Streamed, StreamedMachine};
