//! Operators by sizes and settings. Sizes are odd on purpose: kernels must handle what models do not promise.

pub mod attention;
mod experts;
mod feed;
pub mod latent;
mod linear;
mod norm;
pub mod recurrent;

use super::bench::Case;
pub use linear::tail;

/// Every case.
pub fn all() -> Vec<Case> {
    let groups = [
        linear::cases,
        norm::cases,
        feed::cases,
        experts::cases,
        attention::cases,
        latent::cases,
        recurrent::cases,
    ];
    groups.into_iter().flat_map(|group: fn() -> Vec<Case>| group()).collect()
}
