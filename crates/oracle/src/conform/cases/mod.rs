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

/// Every case, for a backend with units of attention of so many cells.
pub fn all(attention_unit: usize) -> impl Iterator<Item = Case> {
    let groups = [
        linear::cases,
        norm::cases,
        feed::cases,
        experts::cases,
        attention::cases,
        latent::cases,
        recurrent::cases,
    ];
    groups.into_iter().flat_map(|group: fn() -> Vec<Case>| group()).map(move |c| c.fitted(attention_unit))
}
