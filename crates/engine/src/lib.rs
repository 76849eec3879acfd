//! Floor 6: the step loop and what it is made of. It names no backend, no file format and no model family.
//!
//! [`Engine`] runs steps; [`Service`] is an engine on a thread of its own, which any number of threads send requests to.
//! A step goes through `schedule` (who gets rows, pure) with `policy` (how many) and `memory` (pages and states), the
//! machine, `verify` and `answer` (token, stop), `outbox` (text) and `sink` (events). Requests come in through `intake`.
#![forbid(unsafe_code)]

mod answer;
mod chooser;
mod compress;
mod constrain;
mod cost;
mod drafting;
mod engine;
mod error;
mod fetching;
mod filling;
mod handle;
mod held;
mod intake;
pub mod kv;
mod mailbox;
mod memory;
mod message;
mod numbers;
mod outbox;
mod output;
mod policy;
mod pool;
mod purpose;
mod queue;
mod request;
mod results;
mod row;
pub mod sample;
mod saved;
mod schedule;
mod sequence;
mod service;
mod sink;
mod snapshot;
mod speculate;
pub mod stop;
mod swap_counts;
mod swap_price;
mod swapped;
mod tally;
mod tenants;
mod text;
mod verify;

pub use compress::{Compression, CompressionMethod};
pub use constrain::{Boundary, Constraint, ReasoningState};
pub use drafting::{Guesses, MOST_BRANCHES, MOST_DRAFTS, Proposal, SIGNS, Speculate, Speculation};
pub use engine::Engine;
pub use error::EngineError;
pub use handle::Handle;
pub use kv::content::{Identity, Name};
pub use message::Waker;
pub use numbers::NumberRows;
pub use output::{Event, FinishReason, LengthBy, Scored, StopBy, Times, Timings, Token};
pub use policy::Policy;
pub use pool::{Pooled, Pooling, pooled};
pub use request::{Generation, Pass, Request, Resume, RowSink, Task, Terms};
pub use saved::{SavedEntries, SavedPart};
pub use service::Service;
pub use sink::{Gone, Sink};
pub use snapshot::{Board, Counters, LastStep, SequenceState, Snapshot};
pub use speculate::{
    BridgedModel, DraftAsk, DraftModel, Drafter, HeadDrafter, KnownAnswers, KnownTexts, LoadedHead,
    Lookahead, Medusa, Ngram, Rightness, Suffix,
};
pub use swap_counts::SwapCounts;
pub use swap_price::SwapChoice;
pub use tally::{StepTallies, Tally};
