//! Pages of the cache and recurrent states: who holds which, and which can be found again by what they hold.

pub mod content;
mod pages;
mod states;

pub use pages::Pages;
pub use states::States;
