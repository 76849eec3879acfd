//! Operators as launches: each file turns some of them into names of kernels, grids and arguments.

mod adapt;
mod attention;
mod experts;
mod latent;
mod linear;
mod norm;
pub(crate) mod recurrent;
mod rows;
mod tensor;
