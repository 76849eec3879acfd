//! Every order in which two threads can claim, run and end the tasks of a few operators, by the model checker loom:
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test --release -p lamina-pool --test loom`.
#![cfg(loom)]

use lamina_pool::Pool;
use loom::{
    model,
    sync::atomic::{AtomicUsize, Ordering::*},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `tasks` tasks that count themselves. The cell behind the closure is checked by loom: a worker that read it after
/// `run` has returned, or while the next operator writes it, fails the model.
fn run_and_count(pool: &Pool, tasks: usize) {
    let hits: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(tasks, |i, worker| {
        assert!(worker < pool.threads());
        hits[i].fetch_add(1, Relaxed);
    });
    // Not atomic on purpose: the end of `run` has to order these reads behind every task.
    assert!(hits.into_iter().all(|mut hit| hit.with_mut(|n| *n) == 1));
}

#[test]
fn every_task_of_two_operators_runs_once() {
    model(|| {
        let pool = Pool::new(2);
        run_and_count(&pool, 2);
        run_and_count(&pool, 3);
    });
}

#[test]
fn a_worker_that_sleeps_is_woken_to_work_or_to_end() {
    model(|| drop(Pool::new(2)));
    model(|| run_and_count(&Pool::new(2), 2));
}

#[test]
fn a_panic_is_passed_on_once() {
    model(|| {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(2, |i, _| assert_ne!(i, 1, "one"))));
        assert!(result.is_err());
        run_and_count(&pool, 2);
    });
}
