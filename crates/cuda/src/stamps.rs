//! Time stamps in the stream: events with times.

use crate::{context::CudaContext, error::check, sys};
use lamina_plan::backend::Result;
use std::{ptr, sync::Arc, time::Duration};

/// Events that tell times, too.
const WITH_TIMES: u32 = 0;

/// Events of a step, used again by the next one.
pub(crate) struct Stamps {
    context: Arc<CudaContext>,
    events: Vec<sys::CUevent>,
}

// SAFETY: events belong to the context, and may be used on any thread that it is set on.
unsafe impl Send for Stamps {}

impl Stamps {
    pub fn new(context: Arc<CudaContext>) -> Stamps {
        Stamps { context, events: vec![] }
    }

    /// Notes when the work that was asked for before is done.
    pub fn stamp(&mut self, at: usize) -> Result<()> {
        self.context.bind()?;
        while self.events.len() <= at {
            let mut event = ptr::null_mut();
            // SAFETY: the context is current; the driver writes one handle.
            check("making an event", unsafe { sys::cuEventCreate(&raw mut event, WITH_TIMES) })?;
            self.events.push(event);
        }
        // SAFETY: event and stream are those of this context.
        check("stamping the time", unsafe { sys::cuEventRecord(self.events[at], self.context.stream()) })
    }

    /// Times from the first event to each of the first `count`, all of which have come.
    pub fn times(&self, count: usize, out: &mut Vec<Duration>) -> Result<()> {
        self.context.bind()?;
        out.clear();
        for &event in self.events.iter().take(count) {
            let mut milliseconds = 0.0_f32;
            // SAFETY: both events are those of this context; the driver writes one number.
            let asked = unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, self.events[0], event) };
            check("reading the time", asked)?;
            out.push(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default());
        }
        Ok(())
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        for event in self.events.drain(..) {
            // SAFETY: made by `stamp`, destroyed once; the driver lets those go that are yet to come.
            let _ = unsafe { sys::cuEventDestroy_v2(event) };
        }
    }
}
