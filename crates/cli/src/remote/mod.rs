//! Clients of servers that speak OpenAI's API.

mod events;
mod figures;
mod load;
mod partner;
mod run;
mod screen;
mod server;

pub use load::{Arrivals, Lengths, LoadPlan, measure};
pub use partner::ServerPartner;
pub use run::{complete, complete_whole, write_texts};
pub use screen::{RequestOrder, Screen};
pub use server::{RemoteServer, ServerAnswer, refused};

use crate::error::Result;
use tokio::runtime::{Builder, Runtime};

/// What clients run on: this thread.
///
/// # Errors
/// When the system gives no means to wait for sockets.
pub fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
