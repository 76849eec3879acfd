//! Names in checkpoints, and weights that arrive packed.

mod common;
mod names;
mod packed;
