//! What several tests of places need.

pub mod divided;
pub mod odd;
pub mod on_disk;
pub mod opened;
