//! Plans of every family, run by the reference interpreter.

mod adapt;
mod arena;
mod clips;
mod common;
mod deferral;
mod golden;
mod heads;
mod hostile;
mod lookahead;
mod shards;
mod snapshots;
mod toy;
mod toy_backend;
mod trained;
