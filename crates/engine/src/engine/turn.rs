//! One step at a time: the models of a process compute in turn.
//!
//! Two models that step at once on all cores take each other's caches and cores, and both are slower than in turn. Who
//! asked first goes first, so no model starves.

use lamina_plan::{BackendError, Batch, Limits, Plan, Rows, Step, StreamCounts, Ticket, Watch};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The turn of this process.
static TURN: TurnLock = TurnLock { state: Mutex::new(Turns { next: 0, serving: 0 }), moved: Condvar::new() };

/// A lock that is given in the order in which it was asked for.
struct TurnLock {
    state: Mutex<Turns>,
    moved: Condvar,
}

struct Turns {
    next: u64,
    serving: u64,
}

/// Whoever has it may compute; the others wait until it is dropped.
pub struct HeldTurn(&'static TurnLock);

/// Waits for the turn to compute on this process's machines, behind those who asked before: for long work beside engines,
/// which gives it back every now and then.
pub fn take_turn() -> HeldTurn {
    TURN.take()
}

impl TurnLock {
    fn take(&'static self) -> HeldTurn {
        let mut state = self.lock();
        let mine = state.next;
        state.next += 1;
        let waiting = |s: &mut Turns| s.serving != mine;
        drop(self.moved.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner));
        HeldTurn(self)
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        self.0.lock().serving += 1;
        self.0.moved.notify_all();
    }
}

/// A machine that steps when it is its turn.
pub struct InTurn {
    inner: Box<dyn Step>,
    held: Option<HeldTurn>,
}

impl InTurn {
    /// Lets `inner` step in turn with the other machines of the process.
    pub fn new(inner: Box<dyn Step>) -> InTurn {
        InTurn { inner, held: None }
    }

    /// Submits when it is its turn, which it keeps until the step is waited for.
    fn in_turn(
        &mut self,
        submit: impl FnOnce(&mut dyn Step) -> Result<Ticket, BackendError>,
    ) -> Result<Ticket, BackendError> {
        self.held = Some(TURN.take());
        let ticket = submit(&mut *self.inner);
        if ticket.is_err() {
            self.held = None;
        }
        ticket
    }
}

impl Step for InTurn {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket, BackendError> {
        self.in_turn(|inner| inner.submit(batch))
    }

    fn submit_watched(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<Ticket, BackendError> {
        self.in_turn(|inner| inner.submit_watched(batch, watch))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<&dyn Rows, BackendError> {
        let rows = self.inner.wait(ticket);
        self.held = None;
        rows
    }

    fn selects_cells(&self) -> bool {
        self.inner.selects_cells()
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>, BackendError> {
        self.inner.export_page(group, page)
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.import_page(group, page, bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>, BackendError> {
        self.inner.export_state(state)
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.import_state(state, bytes)
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.inner.spread(tasks, task);
    }

    fn streamed(&self) -> StreamCounts {
        self.inner.streamed()
    }

    fn eager(&self) -> bool {
        self.inner.eager()
    }

    fn plan(&self) -> &Plan {
        self.inner.plan()
    }

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_at_a_time() {
        static LOCK: TurnLock =
            TurnLock { state: Mutex::new(Turns { next: 0, serving: 0 }), moved: Condvar::new() };
        let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = LOCK.take();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 800);
    }
}
