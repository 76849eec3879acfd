//! The operators, by theme.

mod adapt;
pub mod attention;
mod cell_mask;
pub mod experts;
pub mod latent;
pub mod linear;
pub mod recurrent;
pub mod rope;
mod rows;
mod softmax;
mod store;
