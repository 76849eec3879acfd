//! What backends are held against: the reference interpreter of the operators, the conformance kit, and a simulated device.
//!
//! A backend has this crate as a dev-dependency and calls [`conform::run`] in its tests. Nothing here is fast, and
//! nothing that generates text depends on it.
#![forbid(unsafe_code)]

mod clock;
pub mod conform;
pub mod reference;
mod simulator;
mod slots;

pub use simulator::Throttled;
pub use slots::StagingEvent;
