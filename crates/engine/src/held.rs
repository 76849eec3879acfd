//! Block tables and recurrent state of one sequence.

use crate::{fetching::Fetching, kv::content::Content};
use std::sync::Arc;

/// Memory that a sequence holds while it runs.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Pages from cell 0 on in each layer group; [`lamina_plan::NO_PAGE`] for those that no later row sees.
    pub tables: Vec<Vec<u32>>,
    /// Contents of its full pages that are published.
    pub contents: Vec<Arc<Content>>,
    /// Recurrent state.
    pub state: Option<u32>,
    /// The state as it was before the rows of a step with drafts.
    pub spare: Option<u32>,
    /// What it waits for before its first row.
    pub fetching: Option<Box<Fetching>>,
}
