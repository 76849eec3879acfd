//! Pages of the cache and recurrent states: reference counts, prefix reuse by content, eviction.

pub mod content;
mod pages;
mod states;

pub use pages::Pages;
pub use states::States;
