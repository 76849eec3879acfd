//! The operators, by theme.

mod adapt;
pub mod attention;
pub mod experts;
pub mod latent;
pub mod linear;
pub mod recurrent;
pub mod rope;
mod rows;
mod sight;
mod softmax;
mod store;
