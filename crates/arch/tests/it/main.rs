//! Names in checkpoints, and weights that arrive packed.

mod common;
mod mmproj;
mod names;
mod packed;
