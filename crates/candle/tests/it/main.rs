//! The backend over candle: the conformance kit, and two models.

mod conform;
#[path = "../../../emu/tests/it/common/runner.rs"]
mod runner;
mod story;
