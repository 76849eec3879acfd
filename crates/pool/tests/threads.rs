//! The pool on real threads. `loom.rs` tries all orders of fewer steps.
#![cfg(not(loom))]

use lamina_pool::Pool;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::*},
    thread,
};

/// Tasks of the larger tests: miri takes a thousand times as long.
const MANY: usize = if cfg!(miri) { 40 } else { 1000 };

#[test]
fn every_task_runs_once_on_any_number_of_threads() {
    for threads in [1, 2, 3, 7] {
        let pool = Pool::new(threads);
        for tasks in [0, 1, 2, 5, MANY] {
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
    pool.run(MANY, |i, _| {
        // The first of a share waits for all others, those of its own share among them.
        while i == 0 && done.load(Acquire) < MANY - 1 {
            thread::yield_now();
        }
        done.fetch_add(1, Release);
    });
    assert_eq!(done.into_inner(), MANY);
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
    for _ in 0..if cfg!(miri) { 3 } else { 20 } {
        thread::sleep(std::time::Duration::from_millis(2));
        let n = AtomicUsize::new(0);
        pool.run(64, |_, _| {
            n.fetch_add(1, Relaxed);
        });
        assert_eq!(n.into_inner(), 64);
    }
}

/// Small calls run on the caller's thread, and yet never beside a larger one: both would be worker 0.
#[test]
fn callers_on_several_threads_never_share_a_worker() {
    let pool = Pool::new(2);
    let busy: [AtomicU32; 2] = Default::default();
    let task = |_: usize, worker: usize| {
        assert_eq!(busy[worker].fetch_add(1, SeqCst), 0, "two tasks with worker {worker}");
        thread::yield_now();
        busy[worker].fetch_sub(1, SeqCst);
    };
    thread::scope(|s| {
        for tasks in [1, 1, 8] {
            let (pool, task) = (&pool, &task);
            s.spawn(move || (0..MANY / 10).for_each(|_| pool.run(tasks, task)));
        }
    });
}
