//! Whether models may be fetched, for commands that load none.

use lamina::LoadOptions;

/// Whether models may be fetched.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FetchArgs {
    /// Nothing is fetched: of models that have names, those that were fetched before are used
    #[arg(long, help_heading = "Loading")]
    offline: bool,
}

impl FetchArgs {
    /// The same for the library.
    pub fn options(&self) -> LoadOptions {
        LoadOptions { offline: self.offline, ..LoadOptions::default() }
    }
}
