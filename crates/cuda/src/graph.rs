//! Recorded launches as a graph of the driver.

use crate::{context::CudaContext, error::check, kernels::LoadedKernels, sys};
use lamina_plan::backend::Result;
use std::{ptr, sync::Arc};

/// Launches that run again by one call, at the addresses that they were recorded with.
pub struct CudaGraph {
    context: Arc<CudaContext>,
    /// Its functions are in there.
    _kernels: Arc<LoadedKernels>,
    instance: sys::CUgraphExec,
}

// SAFETY: the instance belongs to the context, and may be used on any thread that it is set on.
unsafe impl Send for CudaGraph {}
// SAFETY: as above. Launches of one instance are in order, as there is one stream.
unsafe impl Sync for CudaGraph {}

impl CudaGraph {
    /// Ends the recording on the context's stream.
    pub(crate) fn recorded(context: Arc<CudaContext>, kernels: Arc<LoadedKernels>) -> Result<CudaGraph> {
        let graph = context.end_recording()?;
        let mut instance = ptr::null_mut();
        // SAFETY: the context is current; the graph is whole; the driver writes one handle.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut instance, graph, 0) };
        // SAFETY: the graph is this function's own; its instance does not need it.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
        check("making a graph", made)?;
        Ok(CudaGraph { context, _kernels: kernels, instance })
    }

    /// Runs it, behind all work before.
    pub(crate) fn launch(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the context is current; the host side keeps the memory that the launches name while it keeps the graph.
        check("running a graph", unsafe { sys::cuGraphLaunch(self.instance, self.context.stream()) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made by `recorded`, destroyed once; the driver waits for a run that is under way.
            let _ = unsafe { sys::cuGraphExecDestroy(self.instance) };
        }
    }
}
