//! Pages of the cache and recurrent states: reference counts, prefix reuse by content, eviction.

pub mod cache_part;
pub mod content;
mod pages;
pub mod prompt_pages;
mod states;

pub use pages::Pages;
pub use states::States;
