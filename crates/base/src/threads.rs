//! Pieces of work beside one another, on as many threads as the system gives.

use std::{
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
};

/// Address space that a thread takes: its stack, the stack of its signals, and what the allocator keeps for it. Rust ends
/// the process where a thread gets the first and not the second.
const THREAD: usize = 3 << 20;

/// How many of `wanted` threads can be started.
pub fn startable(wanted: usize) -> usize {
    let mut halved = std::iter::successors(Some(wanted), |n| (*n > 0).then_some(n / 2));
    halved.find(|n| lamina_reserve::affordable(n.saturating_mul(THREAD))).unwrap_or(0)
}

/// What `work` makes of each piece, in their order. Each piece has a thread of its own, one of them the caller's; where
/// the system gives no more threads, those that there are do the rest.
///
/// # Panics
/// With the panic of a piece.
pub fn on_threads<T: Send, R: Send>(
    pieces: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let pieces: Vec<(usize, T)> = pieces.into_iter().enumerate().collect();
    let more = startable(pieces.len().saturating_sub(1));
    let (queue, done) = (Mutex::new(pieces.into_iter()), Mutex::new(vec![]));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some((i, piece)) = next() {
            let result = work(piece);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let workers: Vec<_> = (0..more).map_while(start).collect();
        run();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_their_pieces() {
        assert_eq!(on_threads(0..7, |i| i * i), [0, 1, 4, 9, 16, 25, 36]);
        let mut rows = [0u8; 9];
        on_threads(rows.chunks_mut(2).enumerate(), |(i, row)| row.fill(i as u8));
        assert_eq!(rows, [0, 0, 1, 1, 2, 2, 3, 3, 4]);
        assert!(on_threads([0u8; 0], |_| 0).is_empty());
        assert_eq!((startable(0), startable(3)), (0, 3));
        assert!(startable(usize::MAX / THREAD) < usize::MAX / THREAD);
    }

    #[test]
    fn a_panic_of_a_piece_is_the_callers() {
        let run = || on_threads(0..3, |i| assert!(i < 2, "piece {i}"));
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
