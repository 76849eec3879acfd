//! The step loop and the service around it.

mod engine;
mod known;
mod limits;
mod scripted;
mod service;
