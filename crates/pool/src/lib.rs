//! Floor 0: threads that share the tasks of one operator.
//!
//! Each thread has a share of neighbouring tasks, which it claims one by one from the front, so that it reads one stream
//! of memory; then it claims what is left of the others' shares from the back. The caller only waits for tasks that were
//! claimed. A worker that the system has taken off its core therefore costs nothing until it holds a task, while a
//! barrier would wait for its arrival: that is what makes peers several times slower when another process takes part of a
//! core.

mod sync;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::PoisonError,
};
use sync::{
    Arc, Mutex, UnsafeCell,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*},
    spin_loop,
    thread::{self, JoinHandle, Thread},
};

/// True where every look at an atomic is another order to try (loom), or takes microseconds (miri).
const MODEL: bool = cfg!(any(loom, miri));
/// How often an idle worker looks for work before it sleeps: about 30 us, a few times the gap between operators.
const IDLE_SPINS: u32 = if MODEL { 1 } else { 4_000 };
/// How often the caller looks for the end before it gives its core away; the worker may need that very core.
const JOIN_SPINS: u32 = if MODEL { 0 } else { 2_000 };

/// Generations count up to here, and then from zero.
const GENERATIONS: u64 = (1 << (64 - 2 * Range::BITS)) - 1;

/// How the tasks of an operator ended: well, or with the first panic of one.
type Ended = Result<(), Box<dyn Any + Send>>;

/// The task function of the running operator with its argument, both type-erased.
#[derive(Clone, Copy)]
struct Closure {
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
struct ShareWord(AtomicU64);

impl ShareWord {
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

/// What the threads of a pool share.
struct Crew {
    shares: Box<[ShareWord]>,
    /// Of the last operator; written after its shares.
    generation: AtomicU64,
    done: AtomicUsize,
    closure: UnsafeCell<Closure>,
    /// Workers that run: what the system gives a thread at its start is theirs.
    begun: AtomicU32,
    sleeping: AtomicU32,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `closure` alone is not `Sync` by itself: it is written only while no task can be claimed (`Pool::run_some`), and
// read only by threads that hold a claimed task (`claim_all`).
unsafe impl Sync for Crew {}
// SAFETY: the pointer inside `closure` is to a `Sync` task function, and is followed only while `Pool::run_some`, which
// borrows that function, waits for the task that follows it.
unsafe impl Send for Crew {}

/// A set of threads; the calling thread is one of them.
pub struct Pool {
    state: Arc<Crew>,
    workers: Vec<(JoinHandle<()>, Thread)>,
    /// Only one operator runs at a time.
    running: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included.
    pub fn new(threads: usize) -> Pool {
        let closure = Closure { call: |_, _, _| {}, data: std::ptr::null() };
        let state = Arc::new(Crew {
            shares: (0..threads.max(1)).map(|_| ShareWord(AtomicU64::new(0))).collect(),
            generation: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            closure: UnsafeCell::new(closure),
            begun: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let spawn = |i: usize| {
            let state = state.clone();
            let name = format!("lamina-{i}");
            let handle = thread::Builder::new().name(name).spawn(move || work(&state, i)).ok()?;
            let thread = handle.thread().clone();
            Some((handle, thread))
        };
        // Threads that cannot be started are missing: the others claim their tasks.
        let workers: Vec<_> = (1..threads.max(1)).map_while(spawn).collect();
        // A thread that gets no memory for its start ends the process: that must not be in the middle of an answer.
        while (state.begun.load(Acquire) as usize) < workers.len() {
            thread::yield_now();
        }
        Pool { state, workers, running: Mutex::new(()) }
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `task(index, worker)` for every index below `tasks`, on all threads; returns when all have ended.
    ///
    /// `worker` is below [`Pool::threads`] and no two tasks run at once with the same one, whoever calls: calls of several
    /// threads run one after the other. A task must not call `run` of its own pool, which would wait for itself.
    ///
    /// # Panics
    /// With the first panic of a task, after all tasks have ended.
    pub fn run<F: Fn(usize, usize) + Sync>(&self, tasks: usize, task: F) {
        // The lock is free again before a panic goes on: it is never poisoned.
        let result = {
            let _one = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            self.run_alone(tasks, &task)
        };
        result.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn run_alone<F: Fn(usize, usize) + Sync>(&self, tasks: usize, task: &F) -> Ended {
        if self.workers.is_empty() || tasks <= 1 {
            return catch_unwind(AssertUnwindSafe(|| (0..tasks).for_each(|i| task(i, 0))));
        }
        let limit = Range::MASK as usize;
        (0..tasks).step_by(limit).try_for_each(|start| {
            let shifted = |i: usize, worker: usize| task(start + i, worker);
            self.run_some((tasks - start).min(limit), &shifted)
        })
    }

    /// One generation: at most [`Range::MASK`] tasks. The caller holds `running`.
    fn run_some<F: Fn(usize, usize) + Sync>(&self, tasks: usize, task: &F) -> Ended {
        let s = &*self.state;
        s.done.store(0, Relaxed);
        let closure = Closure { call: call::<F>, data: (task as *const F).cast() };
        // SAFETY: `running` is held, and the last generation has neither an unclaimed nor a running task: nobody reads
        // the cell until this generation's shares are stored below.
        s.closure.with_mut(|at| unsafe { *at = closure });
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
        s.panic.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, SeqCst);
        for (handle, thread) in self.workers.drain(..) {
            thread.unpark();
            // A worker's panics were already passed on by `run`.
            let _ = handle.join();
        }
    }
}

/// Calls the task function behind `data`.
///
/// # Safety
/// `data` is a live `F`.
unsafe fn call<F: Fn(usize, usize)>(data: *const (), index: usize, worker: usize) {
    // SAFETY: the caller promises a live `F` at this address.
    unsafe { (*data.cast::<F>())(index, worker) }
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
fn claim_all(s: &Crew, worker: usize) {
    for i in 0..s.shares.len() {
        let share = &s.shares[(worker + i) % s.shares.len()];
        while let Some(index) = share.claim(i == 0) {
            // SAFETY: this task is claimed and not done, so `run_some` does not write the cell meanwhile.
            let Closure { call, data } = s.closure.with(|at| unsafe { *at });
            // SAFETY: `run_some` stored `call::<F>` with the address of its `F`, and waits for this task before it returns.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { call(data, index, worker) }));
            if let Err(panic) = result {
                s.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            s.done.fetch_add(1, Release);
        }
    }
}

fn work(s: &Crew, worker: usize) {
    s.begun.fetch_add(1, AcqRel);
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
fn idle(s: &Crew, seen: u64) {
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
