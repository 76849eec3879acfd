//! Stores and panels on disk.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod panels;
mod store;
