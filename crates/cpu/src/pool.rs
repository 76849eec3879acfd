//! Threads that share the tasks of one operator.
//!
//! Each thread has a share of neighbouring tasks, which it claims one by one from the front, so that it reads one stream
//! of memory; then it claims what is left of the others' shares from the back. The caller only waits for tasks that were
//! claimed. A worker that the system has taken off its core therefore costs nothing until it holds a task, while a
//! barrier would wait for its arrival: that is what makes peers several times slower when another process takes part of a
//! core.

use std::{
    any::Any,
    cell::UnsafeCell,
    hint::spin_loop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*},
    },
    thread::{self, JoinHandle, Thread},
};

/// How often an idle worker looks for work before it sleeps: about 30 us, a few times the gap between operators.
const IDLE_SPINS: u32 = 4_000;
/// How often the caller looks for the end before it gives its core away; the worker may need that very core.
const JOIN_SPINS: u32 = 2_000;

/// Generations count up to here, and then from zero.
const GENERATIONS: u64 = (1 << (64 - 2 * Range::BITS)) - 1;

/// A task function with its argument, both type-erased.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize, usize),
    data: *const (),
}

/// Generation, end and next task of a range in one word, so that a claim from an old generation always fails.
#[derive(Clone, Copy)]
struct Range(u64);

impl Range {
    const BITS: u32 = 20;
    const MASK: u64 = (1 << Self::BITS) - 1;

    fn new(generation: u64, tasks: std::ops::Range<usize>) -> Range {
        Range(generation << (2 * Self::BITS) | (tasks.end as u64) << Self::BITS | tasks.start as u64)
    }
    fn end(self) -> u64 {
        self.0 >> Self::BITS & Self::MASK
    }
    fn next(self) -> u64 {
        self.0 & Self::MASK
    }
}

/// The tasks that one thread should run: neighbours, which read memory one after the other.
///
/// On a cache line of its own, since its thread alone writes it until the others have run out of tasks.
#[repr(align(128))]
struct Share(AtomicU64);

impl Share {
    /// Takes the first task (for the thread itself) or the last (for the others, who then disturb its order least).
    fn claim(&self, first: bool) -> Option<usize> {
        let mut range = Range(self.0.load(Acquire));
        while range.next() < range.end() {
            let (index, rest) = if first {
                (range.next(), range.0 + 1)
            } else {
                (range.end() - 1, range.0 - (1 << Range::BITS))
            };
            match self.0.compare_exchange_weak(range.0, rest, AcqRel, Acquire) {
                Err(now) => range = Range(now),
                Ok(_) => return Some(index as usize),
            }
        }
        None
    }
}

struct Shared {
    shares: Box<[Share]>,
    /// Of the last operator; written after its shares.
    generation: AtomicU64,
    done: AtomicUsize,
    job: UnsafeCell<Job>,
    sleeping: AtomicU32,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only while no task can be claimed, and read only by holders of a claimed task.
unsafe impl Sync for Shared {}
// SAFETY: the pointers inside `job` are used only during `Pool::run`, which outlives every claimed task.
unsafe impl Send for Shared {}

/// A set of threads; the calling thread is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(JoinHandle<()>, Thread)>,
    /// Only one operator runs at a time.
    running: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included.
    pub fn new(threads: usize) -> Pool {
        let job = Job { call: |_, _, _| {}, data: std::ptr::null() };
        let shared = Arc::new(Shared {
            shares: (0..threads.max(1)).map(|_| Share(AtomicU64::new(0))).collect(),
            generation: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            job: UnsafeCell::new(job),
            sleeping: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let spawn = |i: usize| {
            let shared = shared.clone();
            let name = format!("lamina-{i}");
            let handle = thread::Builder::new().name(name).spawn(move || work(&shared, i)).ok()?;
            let thread = handle.thread().clone();
            Some((handle, thread))
        };
        // Threads that cannot be started are missing: the others claim their tasks.
        let workers = (1..threads.max(1)).map_while(spawn).collect();
        Pool { shared, workers, running: Mutex::new(()) }
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `task(index, worker)` for every index below `tasks`, on all threads; returns when all have ended.
    ///
    /// `worker` is below [`Pool::threads`] and no two tasks run at once with the same one.
    ///
    /// # Panics
    /// With the first panic of a task, after all tasks have ended.
    pub fn run<F: Fn(usize, usize) + Sync>(&self, tasks: usize, task: F) {
        if self.workers.is_empty() || tasks <= 1 {
            return (0..tasks).for_each(|i| task(i, 0));
        }
        let limit = Range::MASK as usize;
        for start in (0..tasks).step_by(limit) {
            let shifted = |i: usize, worker: usize| task(start + i, worker);
            self.run_some((tasks - start).min(limit), &shifted);
        }
    }

    fn run_some<F: Fn(usize, usize) + Sync>(&self, tasks: usize, task: &F) {
        unsafe fn call<F: Fn(usize, usize)>(data: *const (), index: usize, worker: usize) {
            // SAFETY: `data` is the `task` of the running `run_some`, which waits for every claimed task.
            unsafe { (*data.cast::<F>())(index, worker) }
        }
        let _one = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let s = &*self.shared;
        s.done.store(0, Relaxed);
        // SAFETY: the last generation has no unclaimed and no running task, so nobody reads the job.
        unsafe { *s.job.get() = Job { call: call::<F>, data: (task as *const F).cast() } };
        let generation = (s.generation.load(Relaxed) + 1) & GENERATIONS;
        let threads = s.shares.len();
        for (i, share) in s.shares.iter().enumerate() {
            let range = Range::new(generation, tasks * i / threads..tasks * (i + 1) / threads);
            share.0.store(range.0, Release);
        }
        s.generation.store(generation, SeqCst);
        if s.sleeping.load(SeqCst) > 0 {
            self.workers.iter().for_each(|(_, t)| t.unpark());
        }
        claim_all(s, 0);
        wait_until(|| s.done.load(Acquire) == tasks);
        let panic = s.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for (handle, thread) in self.workers.drain(..) {
            thread.unpark();
            // A worker's panics were already passed on by `run`.
            let _ = handle.join();
        }
    }
}

/// Spins, then gives the core away between looks.
fn wait_until(end: impl Fn() -> bool) {
    let mut spins = 0;
    while !end() {
        if spins < JOIN_SPINS {
            spins += 1;
            spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

/// Claims and runs tasks until none is left: those of the worker, then what others have not begun.
fn claim_all(s: &Shared, worker: usize) {
    for i in 0..s.shares.len() {
        let share = &s.shares[(worker + i) % s.shares.len()];
        while let Some(index) = share.claim(i == 0) {
            // SAFETY: the task is claimed and not done, so `run_some` neither returns nor replaces the job.
            let job = unsafe { *s.job.get() };
            // SAFETY: `call` and `data` belong together, see `run_some`.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.data, index, worker) }));
            if let Err(panic) = result {
                s.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            s.done.fetch_add(1, Release);
        }
    }
}

fn work(s: &Shared, worker: usize) {
    let mut seen = 0;
    while !s.stop.load(Acquire) {
        let generation = s.generation.load(Acquire);
        if generation == seen {
            idle(s, seen);
        } else {
            seen = generation;
            claim_all(s, worker);
        }
    }
}

/// Waits for a generation other than `seen`: spinning first, then asleep.
fn idle(s: &Shared, seen: u64) {
    let same = || s.generation.load(SeqCst) == seen && !s.stop.load(SeqCst);
    for _ in 0..IDLE_SPINS {
        if !same() {
            return;
        }
        spin_loop();
    }
    s.sleeping.fetch_add(1, SeqCst);
    // The caller stores the generation before it reads `sleeping`, so one of the two sees the other.
    while same() {
        thread::park();
    }
    s.sleeping.fetch_sub(1, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 5, 1000] {
                let hits: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                pool.run(tasks, |i, worker| {
                    assert!(worker < threads);
                    hits[i].fetch_add(1, Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_thread_that_is_held_up_keeps_one_task_only() {
        let pool = Pool::new(3);
        let done = AtomicUsize::new(0);
        pool.run(100, |i, _| {
            // The first of a share waits for all others, those of its own share among them.
            while i == 0 && done.load(Acquire) < 99 {
                thread::yield_now();
            }
            done.fetch_add(1, Release);
        });
        assert_eq!(done.into_inner(), 100);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(3);
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(10, |i, _| assert_ne!(i, 7, "seven"))));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, |i, _| {
            sum.fetch_add(i, Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            thread::sleep(std::time::Duration::from_millis(2));
            let n = AtomicUsize::new(0);
            pool.run(64, |_, _| {
                n.fetch_add(1, Relaxed);
            });
            assert_eq!(n.into_inner(), 64);
        }
    }
}
