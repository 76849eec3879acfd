//! What several tests of kernels need.

pub mod draws;
pub mod exact;
pub mod kit;
pub mod runner;
pub mod steps;
