//! Where keys and values lie beside a device's memory: layers in a file, whole pages in a folder that outlives the process,
//! sequences that were preempted. What goes wrong in a store later is a line of the report, and no error of a request.

use crate::{
    error::{Error, Result},
    options::LoadOptions,
};
use lamina_base::human_bytes;
use lamina_disk::{CacheFile, CacheKey, DiskError, PageStore, SwapStore};
use lamina_plan::{Ops, Plan};
use lamina_planner::Placement;
use lamina_stream::{LayerPagedMachine, LayerRoom};
use std::{path::PathBuf, sync::Arc};

/// Layers of a cache that lie in a file, which exists.
pub(crate) struct CacheOnDisk {
    file: CacheFile,
    room: LayerRoom,
    /// Layers of the cache in all.
    layers: usize,
    folder: PathBuf,
}

impl CacheOnDisk {
    /// Makes the file of the layers of `plan` that lie on disk, in its full length; none where no layer does.
    ///
    /// # Errors
    /// When the disk has no room for it.
    pub fn open(placement: &Placement, plan: &Plan, options: &LoadOptions) -> Result<Option<CacheOnDisk>> {
        if plan.kv.bound.is_empty() {
            return Ok(None);
        }
        let (room, folder) = (placement.layers.clone(), options.stream.panel_root());
        let file = CacheFile::create(&folder, room.arrays.clone());
        let file = file.map_err(|e| Error::InvalidRequest(e.to_string()))?;
        Ok(Some(CacheOnDisk { file, room, layers: plan.kv.layers.len(), folder }))
    }

    /// Has the machine of `plan` keep these layers on disk.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn around(self, machine: Box<dyn Ops>, plan: &Plan) -> Result<Box<dyn Ops>> {
        Ok(Box::new(LayerPagedMachine::new(machine, plan, self.file)?))
    }

    /// What a user is told at load.
    pub fn note(&self) -> String {
        format!(
            "the cache of {} of {} layers lies on disk, {} in {}: what a step needs of it is read in every step, to buffers \
             of {}",
            self.room.arrays.len(),
            self.layers,
            human_bytes(self.room.file_bytes()),
            self.folder.display(),
            human_bytes(self.room.buffer_bytes())
        )
    }
}

/// The store of pages that outlive the process; none where no folder was named.
pub(crate) fn open_store(options: &LoadOptions) -> Result<Option<Arc<PageStore>>> {
    let Some(folder) = &options.cache_dir else { return Ok(None) };
    let key = CacheKey::of_environment().map_err(|length| DiskError::Key { length });
    let opened = |key| PageStore::open(folder, options.cache_disk, key, options.report.clone());
    let store = key.and_then(opened);
    Ok(Some(Arc::new(store.map_err(|e| Error::InvalidRequest(e.to_string()))?)))
}

/// The store of preempted sequences; none where they are computed again.
pub(crate) fn open_swap(options: &LoadOptions) -> Result<Option<SwapStore>> {
    let budget = options.kv_swap.budget;
    if budget.is_none() {
        return Ok(None);
    }
    let store = SwapStore::open(&options.stream.panel_root(), budget, options.report.clone());
    Ok(Some(store.map_err(|e| Error::InvalidRequest(e.to_string()))?))
}
