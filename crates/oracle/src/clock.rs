//! The clock of a simulated device.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Until when a simulated device is busy with what was asked of it: one thing behind the other, beside the host.
pub(crate) struct DeviceClock {
    done: Mutex<Instant>,
}

impl Default for DeviceClock {
    fn default() -> DeviceClock {
        DeviceClock { done: Mutex::new(Instant::now()) }
    }
}

impl DeviceClock {
    /// Asks for something that takes so long, behind all before and not before now.
    pub fn add(&self, time: Duration) {
        let mut done = self.lock();
        *done = done.max(Instant::now()) + time;
    }

    /// What is asked for from now on begins at `instant` or later.
    pub fn reach(&self, instant: Instant) {
        let mut done = self.lock();
        *done = done.max(instant);
    }

    /// When all that was asked for is done.
    pub fn done(&self) -> Instant {
        *self.lock()
    }

    /// Sleeps until all that was asked for is done.
    pub fn wait(&self) {
        thread::sleep(self.done().saturating_duration_since(Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
