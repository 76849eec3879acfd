//! A build that fetches nothing.

use crate::{
    error::{HubError, Result},
    hub::Hub,
    name::RepoName,
    progress::PullWatch,
};
use std::path::PathBuf;

/// Why.
const LEFT_OUT: &str = "this build fetches nothing (Cargo feature `client`)";

impl Hub {
    pub(crate) fn hub_model(&self, name: &RepoName, watch: &dyn PullWatch) -> Result<PathBuf> {
        self.here(name, LEFT_OUT, watch)
    }

    pub(crate) fn url_model(&self, url: &str, _: &dyn PullWatch) -> Result<PathBuf> {
        Err(HubError::NotHere { name: url.to_owned(), missing: String::new(), why: LEFT_OUT })
    }
}
