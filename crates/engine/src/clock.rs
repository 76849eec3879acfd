//! Where time is read.

use std::time::Instant;

/// Where an engine reads the time. It is the system's, but where engines are simulated: there a step takes as long as is said.
pub type Clock = fn() -> Instant;
