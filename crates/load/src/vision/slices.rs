//! Long work in slices, between which the engines of the process compute their steps.

use crate::error::{Error, Result};
use lamina_engine::{HeldTurn, take_turn};
use std::time::{Duration, Instant};

/// How long a slice lasts at least, where the work is longer; it ends behind the operator that goes on then.
const SLICE: Duration = Duration::from_millis(30);

/// The slices of one piece of work.
pub(super) struct Slices<'a> {
    /// Asked before each slice: false where nobody waits for the work any more.
    wanted: &'a dyn Fn() -> bool,
    turn: Option<HeldTurn>,
    begun: Instant,
}

impl<'a> Slices<'a> {
    /// Slices of work that goes on while it is `wanted`.
    pub fn new(wanted: &'a dyn Fn() -> bool) -> Slices<'a> {
        Slices { wanted, turn: None, begun: Instant::now() }
    }

    /// Waits for the turn to compute.
    ///
    /// # Errors
    /// When nobody wants the work any more.
    pub fn begin(&mut self) -> Result<()> {
        self.end();
        if !(self.wanted)() {
            return Err(Error::Runtime("nobody waits for its rows any more".into()));
        }
        self.turn = Some(take_turn());
        self.begun = Instant::now();
        Ok(())
    }

    /// True where others should have their turn.
    pub fn is_over(&self) -> bool {
        self.begun.elapsed() >= SLICE
    }

    /// Gives the turn back.
    pub fn end(&mut self) {
        self.turn = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    #[test]
    fn who_waits_has_its_turn_before_the_next_slice() {
        let went = AtomicBool::new(false);
        let mut slices = Slices::new(&|| true);
        slices.begin().expect("wanted");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = take_turn();
                went.store(true, Ordering::SeqCst);
            });
            // The other may not have come to wait yet.
            for _ in 0..1_000_000 {
                if went.load(Ordering::SeqCst) {
                    break;
                }
                thread::yield_now();
                slices.begin().expect("wanted");
            }
            slices.end();
        });
        assert!(went.load(Ordering::SeqCst));
    }

    #[test]
    fn what_nobody_wants_ends() {
        let mut slices = Slices::new(&|| false);
        assert!(slices.begin().is_err());
    }
}
