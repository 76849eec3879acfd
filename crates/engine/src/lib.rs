//! Floor 6: the step loop and what it is made of. It names no backend, no file format and no model family.
//!
//! [`Engine`] runs steps; [`Service`] is an engine on a thread of its own, which any number of threads send requests to.
#![forbid(unsafe_code)]

mod engine;
mod error;
pub mod kv;
mod output;
mod request;
pub mod sample;
mod schedule;
mod sequence;
mod service;
pub mod stop;

pub use engine::Engine;
pub use error::EngineError;
pub use output::{Event, FinishReason, Timings, Token};
pub use request::{Generation, Pass, Request, Sink, Stage};
pub use service::{Handle, Service, Stats};
