//! Floor 7 and a half: one HTTP server for the clients that people have, those of OpenAI, Anthropic, llama-server and
//! Ollama. It stands on the public Rust API of the engine.
//!
//! A request goes through `server` (connection, TLS, origin, key), a dialect under `api`, which turns its body into one
//! [`run::AnswerJob`], and the one runner, whose pieces the dialect's renderer writes.
//!
//! ```no_run
//! let options = lamina_serve::ServeOptions { port: 0, ..Default::default() };
//! let server = lamina_serve::Server::start(options)?;
//! println!("{}", server.url());
//! server.wait();
//! # Ok::<(), lamina_serve::StartError>(())
//! ```
#![forbid(unsafe_code)]

mod api;
mod app;
mod body;
mod call;
mod debug;
mod dialect;
mod end_rate;
mod error;
mod frames;
mod gateway;
mod guard;
mod kept;
mod live;
mod local;
mod log;
mod media;
mod metrics;
mod models;
mod options;
mod page;
mod replica;
pub mod router;
mod run;
mod server;
mod spans;
mod threads;
mod ticket;
mod top;

pub use lamina_ranks::{AppKey, AppKeyError};
pub use local::{DetailedDelta, LocalRequest, LocalResponse, LocalServer};
pub use options::{
    KeepAlive, LogFormat, ModelOrigin, ModelSettings, NamedPath, Network, Reasoning, ServeOptions, Span,
};
pub use replica::{JoinedReplica, serve_replica};
pub use router::ReplicaRole;
pub use run::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, TokenUsage};
pub use server::{Server, StartError};
pub use ticket::ReplicaPlace;
