//! The stores below a model's cache that were asked for. What goes wrong in them later is a line of the report, and no error
//! of a request.

use crate::{
    error::{Error, Result},
    options::LoadOptions,
};
use lamina_disk::{PageStore, SwapStore};
use std::sync::Arc;

/// The cache on disk.
pub(crate) fn open_store(options: &LoadOptions) -> Result<Option<Arc<PageStore>>> {
    let Some(folder) = &options.cache_dir else { return Ok(None) };
    let store = PageStore::open(folder, options.cache_disk, options.report.clone());
    Ok(Some(Arc::new(store.map_err(|e| Error::InvalidRequest(e.to_string()))?)))
}

/// The store of preempted sequences.
pub(crate) fn open_swap(options: &LoadOptions) -> Result<Option<SwapStore>> {
    let budget = options.kv_swap.budget;
    if budget.is_none() {
        return Ok(None);
    }
    let store = SwapStore::open(&options.stream.panel_root(), budget, options.report.clone());
    Ok(Some(store.map_err(|e| Error::InvalidRequest(e.to_string()))?))
}
