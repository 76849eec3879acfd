//! Floor 6: the step loop and what it is made of. It names no backend, no file format and no model family.
#![forbid(unsafe_code)]

pub mod sample;
pub mod stop;
