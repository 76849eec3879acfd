//! Jobs that a disk works on.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long to wait for the disk before the next look at it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes jobs for a disk, and gives them back one by one, in any order, each with what came of it.
pub trait DiskJobs<J, R>: Send {
    /// Takes a job; does not wait.
    fn submit(&mut self, job: J);

    /// A job that is done; none when there is none after `timeout`.
    ///
    /// # Errors
    /// When nobody works on jobs any more.
    fn next(&mut self, timeout: Duration) -> io::Result<Option<(J, R)>>;

    /// Takes back those of the `unwanted` jobs that nobody has begun, or none of them.
    fn withdraw(&mut self, unwanted: &dyn Fn(&J) -> bool) -> Vec<J>;
}

/// A queue to a disk, and how many of its jobs are not done.
pub struct InFlight<J, R> {
    /// Used through `&mut` alone; a machine is shared between threads.
    queue: Mutex<Box<dyn DiskJobs<J, R>>>,
    count: usize,
    waited: Duration,
}

impl<J, R> InFlight<J, R> {
    /// Jobs for `queue`, which has none yet.
    pub fn over(queue: impl DiskJobs<J, R> + 'static) -> InFlight<J, R> {
        InFlight { queue: Mutex::new(Box::new(queue)), count: 0, waited: Duration::ZERO }
    }

    fn queue(&mut self) -> &mut dyn DiskJobs<J, R> {
        self.queue.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    /// Jobs that are not done.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How long jobs were waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Takes a job; does not wait.
    pub fn submit(&mut self, job: J) {
        self.count += 1;
        self.queue().submit(job);
    }

    /// A job that is done, if there is one.
    ///
    /// # Errors
    /// When nobody works on jobs any more.
    pub fn arrived(&mut self) -> io::Result<Option<(J, R)>> {
        self.next(Duration::ZERO)
    }

    /// Waits for a job; none where all are done.
    ///
    /// # Errors
    /// When nobody works on jobs any more.
    pub fn wait(&mut self) -> io::Result<Option<(J, R)>> {
        let mut done = self.arrived()?;
        let begin = Instant::now();
        while done.is_none() && self.count > 0 {
            done = self.next(PATIENCE)?;
            self.waited += if done.is_some() { begin.elapsed() } else { Duration::ZERO };
        }
        Ok(done)
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<(J, R)>> {
        let done = if self.count > 0 { self.queue().next(timeout)? } else { None };
        self.count -= usize::from(done.is_some());
        Ok(done)
    }

    /// Takes back those of the `unwanted` jobs that nobody has begun.
    pub fn withdraw(&mut self, unwanted: &dyn Fn(&J) -> bool) -> Vec<J> {
        let back = if self.count > 0 { self.queue().withdraw(unwanted) } else { vec![] };
        self.count -= back.len();
        back
    }
}
