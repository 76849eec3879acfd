//! Floor 1½: models by name. A [`ModelName`] leads to files on this machine: in the cache of the hub, which [`Hub::locate`]
//! fills, or in the stores of Ollama and LM Studio, which are only read. Nothing is known here of what models are.
#![forbid(unsafe_code)]

mod cache;
mod choice;
#[cfg(feature = "client")]
mod client;
mod error;
mod hub;
mod list;
mod lm_studio;
mod name;
#[cfg(not(feature = "client"))]
mod no_client;
mod ollama;
#[cfg(feature = "client")]
mod preview;
mod progress;
#[cfg(feature = "client")]
mod pull;
#[cfg(feature = "client")]
mod pull_job;
mod removal;
#[cfg(feature = "client")]
mod search;
mod settings;
mod store;
#[cfg(all(test, feature = "client"))]
#[allow(clippy::unwrap_used)] // helpers may fail like tests
mod tests;
#[cfg(feature = "client")]
mod url;
#[cfg(feature = "client")]
mod verify;

pub use cache::{CachedRepo, HubCache};
pub use choice::{ChosenFiles, RepoFile, choose};
#[cfg(feature = "client")]
pub use client::{ByteRanges, Checksum, Pace};
pub use error::{HubError, Result};
pub use hub::Hub;
pub use list::list_all;
pub use lm_studio::LmStudioStore;
pub use name::{ModelName, RepoName, RepoPart, is_inner_path};
pub use ollama::OllamaStore;
pub use progress::{BegunFile, BegunModel, FitAnswer, ModelPreview, PullProgress, PullWatch};
#[cfg(feature = "client")]
pub use pull_job::{PullPlan, PulledFile};
pub use removal::Removal;
#[cfg(feature = "client")]
pub use search::SearchHit;
pub use settings::{HubSettings, OfflineBy};
pub use store::{ModelStore, StoredModel};

/// How files are fetched: not at all.
#[cfg(not(feature = "client"))]
pub type Pace = ();
