//! The queue to a disk: jobs go in, threads that need no core while the disk works take them out, and answers come back.
//! Entries that are read and written, pages and extents of weights are its clients.

use crate::in_flight::DiskJobs;
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Jobs in their order, and what those who put them in share with those who work on them.
#[derive(Debug, Default)]
pub(crate) struct Jobs<J, S> {
    pub waiting: VecDeque<J>,
    pub shared: S,
    /// Jobs that were taken out and have not ended.
    working: usize,
    closed: bool,
}

/// Jobs between threads.
#[derive(Debug)]
pub(crate) struct JobQueue<J, S = ()> {
    jobs: Mutex<Jobs<J, S>>,
    changed: Condvar,
}

impl<J, S: Default> JobQueue<J, S> {
    pub fn new() -> Arc<JobQueue<J, S>> {
        JobQueue::sharing(S::default())
    }
}

impl<J, S> JobQueue<J, S> {
    /// An empty queue with something that is shared.
    pub fn sharing(shared: S) -> Arc<JobQueue<J, S>> {
        let jobs = Jobs { waiting: VecDeque::new(), shared, working: 0, closed: false };
        Arc::new(JobQueue { jobs: Mutex::new(jobs), changed: Condvar::new() })
    }

    pub fn lock(&self) -> MutexGuard<'_, Jobs<J, S>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and wakes all who wait for it.
    pub fn update<R>(&self, change: impl FnOnce(&mut Jobs<J, S>) -> R) -> R {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Puts a job behind the others.
    pub fn put(&self, job: J) {
        self.update(|jobs| jobs.waiting.push_back(job));
    }

    /// Takes back jobs that nobody has begun.
    pub fn withdraw(&self, unwanted: impl Fn(&J) -> bool) -> Vec<J> {
        self.update(|jobs| {
            let (out, kept): (VecDeque<_>, VecDeque<_>) = jobs.waiting.drain(..).partition(unwanted);
            jobs.waiting = kept;
            out.into()
        })
    }

    /// Waits for the next job, as long as what is shared is not `ready` for it; none when there will be no more.
    pub fn take(&self, ready: impl Fn(&S) -> bool) -> Option<J> {
        let idle = |jobs: &mut Jobs<J, S>| {
            !(jobs.closed && jobs.waiting.is_empty()) && (jobs.waiting.is_empty() || !ready(&jobs.shared))
        };
        let mut jobs = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        jobs.take()
    }

    /// The next job, if there is one now.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn take_now(&self) -> Option<J> {
        self.lock().take()
    }

    /// One of the jobs that were taken out has ended, with a `change` of what is shared.
    pub fn ended<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        self.update(|jobs| {
            jobs.working -= 1;
            change(&mut jobs.shared)
        })
    }

    /// Waits as long as `unmet`, and for `longest` at most.
    pub fn wait(&self, longest: Duration, unmet: impl FnMut(&mut Jobs<J, S>) -> bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), longest, unmet);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until all jobs have ended.
    pub fn flush(&self) {
        let busy = |jobs: &mut Jobs<J, S>| jobs.working > 0 || !jobs.waiting.is_empty();
        drop(self.changed.wait_while(self.lock(), busy));
    }

    /// There will be no more jobs; those that wait are still taken out.
    pub fn close(&self) {
        self.update(|jobs| jobs.closed = true);
    }

    /// There will be no more jobs, and those that wait are dropped.
    pub fn abandon(&self) {
        self.update(|jobs| {
            jobs.waiting.clear();
            jobs.closed = true;
        });
    }
}

impl<J, S> Jobs<J, S> {
    fn take(&mut self) -> Option<J> {
        let job = self.waiting.pop_front()?;
        self.working += 1;
        Some(job)
    }
}

/// Starts `count` threads, one at least; fewer where the system gives no more. They are no threads of a pool: a disk keeps
/// them waiting.
///
/// # Errors
/// When the system gives none.
pub(crate) fn start_threads(
    name: &str,
    count: usize,
    work: impl Fn() + Clone + Send + 'static,
) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |i| thread::Builder::new().name(format!("{name}-{i}")).spawn(work.clone());
    let mut threads = vec![start(0)?];
    threads.extend((1..count).map_while(|i| start(i).ok()));
    Ok(threads)
}

/// A queue whose jobs come back one by one, in any order.
pub(crate) struct DiskQueue<J, R> {
    jobs: Arc<JobQueue<J>>,
    done: Receiver<(J, R)>,
    name: &'static str,
}

impl<J, R> DiskQueue<J, R> {
    /// A queue of which others take the jobs, and send them back. `name` is what errors call it.
    pub fn over(name: &'static str, jobs: Arc<JobQueue<J>>, done: Receiver<(J, R)>) -> DiskQueue<J, R> {
        DiskQueue { jobs, done, name }
    }
}

impl<J: Send, R: Send> DiskJobs<J, R> for DiskQueue<J, R> {
    fn submit(&mut self, job: J) {
        self.jobs.put(job);
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<(J, R)>> {
        match self.done.recv_timeout(timeout) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other(format!("the queue to the disk ({}) has ended", self.name)))
            }
        }
    }

    fn withdraw(&mut self, unwanted: &dyn Fn(&J) -> bool) -> Vec<J> {
        self.jobs.withdraw(unwanted)
    }
}

impl<J: Send + 'static, R: Send + 'static> DiskQueue<J, R> {
    /// A queue of `threads` threads, which do `work`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn of_threads(
        name: &'static str,
        threads: usize,
        work: impl Fn(&mut J) -> R + Clone + Send + 'static,
    ) -> io::Result<DiskQueue<J, R>> {
        let (sender, done) = channel();
        let jobs = JobQueue::new();
        let theirs = jobs.clone();
        // Not joined: one that waits for a disk that hangs would hold up whoever closes the model.
        start_threads(&format!("lamina-{name}"), threads, move || {
            while let Some(mut job) = theirs.take(|()| true) {
                let result = work(&mut job);
                if sender.send((job, result)).is_err() {
                    return;
                }
            }
        })?;
        Ok(DiskQueue::over(name, jobs, done))
    }
}

impl<J, R> Drop for DiskQueue<J, R> {
    fn drop(&mut self) {
        self.jobs.abandon();
    }
}
