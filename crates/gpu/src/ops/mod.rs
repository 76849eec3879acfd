//! Operators as launches: each file turns some of them into names of kernels, grids and arguments.

mod adapt;
mod attention;
mod experts;
mod groups;
mod latent;
mod linear;
mod norm;
pub(crate) mod recurrent;
mod rows;
mod tensor;

/// Rows of a step, or of a matrix, from which on a tile of many rows is used: the bits are the same.
const MANY: usize = 24;
