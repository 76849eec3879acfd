//! How fast a connection between a leader and a rank is: frames that the rank sends back.

use crate::{
    RankAnswer, RankError, RankOrder, Result,
    line::{RankLine, StageFrame},
};
use std::time::Instant;

/// Bytes of a frame and how many are sent: what a round of a small model takes, and what a chunk of a prompt does. A first
/// frame of each is not counted: a connection begins slowly.
const SMALL: (usize, usize) = (4 << 10, 100);
const LARGE: (usize, usize) = (4 << 20, 12);

/// What a connection takes for a message, one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineSpeed {
    /// Seconds of a message without bytes.
    pub seconds: f64,
    /// Bytes per second.
    pub rate: f64,
}

/// Has the rank behind `line`, which has no other order yet, send frames back, and times them.
///
/// # Errors
/// When the rank is gone, or answers something else.
pub fn measure_line(line: &RankLine) -> Result<LineSpeed> {
    let order = RankOrder::Echo { frames: SMALL.1 + LARGE.1 + 2 };
    line.send_value(StageFrame::Order, &order)?;
    match line.next_value(StageFrame::Answer)? {
        RankAnswer::Echoes => {}
        other => return Err(RankError::Frame(format!("{other:?} came in place of an echo"))),
    }
    Ok(LineSpeed::of((SMALL.0, one_way(line, SMALL)?), (LARGE.0, one_way(line, LARGE)?)))
}

impl LineSpeed {
    /// From the bytes and seconds of a small message and of a large one.
    fn of(small: (usize, f64), large: (usize, f64)) -> LineSpeed {
        let rate = (large.0 - small.0) as f64 / (large.1 - small.1).max(f64::MIN_POSITIVE);
        LineSpeed { seconds: (small.1 - small.0 as f64 / rate).max(0.0), rate }
    }
}

/// Median seconds of a frame of so many bytes, one way.
fn one_way(line: &RankLine, (bytes, frames): (usize, usize)) -> Result<f64> {
    let payload = vec![0x5a; bytes];
    let mut seconds = Vec::with_capacity(frames);
    for _ in 0..=frames {
        let begun = Instant::now();
        line.send(StageFrame::Columns, &payload)?;
        let back = line.next(StageFrame::Columns)?;
        seconds.push(begun.elapsed().as_secs_f64() / 2.0);
        if back.len() != bytes {
            return Err(RankError::Frame(format!("{} bytes came back of {bytes}", back.len())));
        }
    }
    seconds.remove(0);
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[frames / 2])
}

/// Sends so many frames of the leader back, as a rank that is told to.
///
/// # Errors
/// When the leader is gone.
pub fn echo(line: &RankLine, frames: usize) -> Result<()> {
    line.send_value(StageFrame::Answer, &RankAnswer::Echoes)?;
    for _ in 0..frames {
        let payload = line.next(StageFrame::Columns)?;
        line.send(StageFrame::Columns, &payload)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn two_sizes_tell_the_time_of_a_message_and_that_of_its_bytes() {
        let (seconds, rate) = (35e-6, 1.15e9);
        let message = |bytes: usize| (bytes, seconds + bytes as f64 / rate);
        let found = LineSpeed::of(message(SMALL.0), message(LARGE.0));
        assert!((found.seconds / seconds - 1.0).abs() < 1e-6 && (found.rate / rate - 1.0).abs() < 1e-6);
        // No time is less than none, whatever the clock says.
        let odd = LineSpeed::of((SMALL.0, 1e-9), (LARGE.0, 1e-3));
        assert!(odd.seconds == 0.0 && odd.rate > 0.0, "{odd:?}");
    }

    #[test]
    fn a_rank_sends_back_what_it_is_sent_and_takes_orders_afterwards() {
        let (leader, rank) = RankLine::pair().unwrap();
        let other = thread::spawn(move || {
            let RankOrder::Echo { frames } = rank.next_value(StageFrame::Order).unwrap() else { panic!() };
            echo(&rank, frames).unwrap();
            rank.next_value::<RankOrder>(StageFrame::Order).unwrap()
        });
        let found = measure_line(&leader).unwrap();
        assert!(found.seconds < 1.0 && found.rate > 1e6, "{found:?}");
        let next = RankOrder::Place { first: 0, last: 1 };
        leader.send_value(StageFrame::Order, &next).unwrap();
        assert_eq!(other.join().unwrap(), next);
    }
}
