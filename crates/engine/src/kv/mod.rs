//! Pages of the cache and recurrent states: who holds which, and which can be found again by their tokens.

mod pages;
mod states;

pub use pages::Pages;
pub use states::States;
