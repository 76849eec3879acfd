//! What of the memory belongs to one sequence.

use crate::kv::content::Content;
use std::sync::Arc;

/// Memory that a sequence holds while it runs.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Pages from cell 0 on in each layer group; [`lamina_plan::NO_PAGE`] for those that no later row sees.
    pub tables: Vec<Vec<u32>>,
    /// What its full pages hold, as far as that is published.
    pub contents: Vec<Arc<Content>>,
    /// Recurrent state.
    pub state: Option<u32>,
}
