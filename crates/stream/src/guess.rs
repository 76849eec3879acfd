//! Whether guesses of experts are worth their reads.

/// Guesses after which they are judged.
const JUDGED: u32 = 256;
/// Visits of mixtures for which nothing is guessed once guesses were not worth it; texts change, and disks do.
const PAUSE: u32 = 1 << 14;

/// What became of an expert that was read on a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuessOutcome {
    /// It was in memory when it was asked for.
    InTime,
    /// It was asked for while it was read.
    Late,
    /// It was not asked for.
    Wrong,
    /// It was not asked for, and was still being read when others were.
    InTheWay,
}

/// Keeps the score of guesses, and stops them where they cost more than they bring: where most are wrong, or where the disk
/// never idles, so that they come too late or keep others waiting.
#[derive(Clone, Debug, Default)]
pub struct GuessScore {
    in_time: u32,
    late: u32,
    wrong: u32,
    in_the_way: u32,
    /// Visits of mixtures until guessing is tried again.
    pause: u32,
}

impl GuessScore {
    /// True where guesses should be made.
    pub fn is_worth_it(&self) -> bool {
        self.pause == 0
    }

    /// Called when a mixture has been computed.
    pub fn visited(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// Takes an outcome, and judges all of them when there are enough.
    pub fn add(&mut self, outcome: GuessOutcome) {
        match outcome {
            GuessOutcome::InTime => self.in_time += 1,
            GuessOutcome::Late => self.late += 1,
            GuessOutcome::Wrong => self.wrong += 1,
            GuessOutcome::InTheWay => self.in_the_way += 1,
        }
        let right = self.in_time + self.late;
        let all = right + self.wrong + self.in_the_way;
        if all < JUDGED {
            return;
        }
        let worth_it = 2 * right >= all && self.in_time >= self.in_the_way;
        *self = GuessScore { pause: if worth_it { 0 } else { PAUSE }, ..GuessScore::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: [(GuessOutcome, u32); 2]) -> GuessScore {
        let mut score = GuessScore::default();
        for (outcome, n) in outcomes {
            (0..n).for_each(|_| score.add(outcome));
        }
        score
    }

    #[test]
    fn guesses_stop_where_most_are_wrong_or_in_the_way_and_are_tried_again() {
        assert!(after([(GuessOutcome::InTime, 128), (GuessOutcome::Wrong, 128)]).is_worth_it());
        let mut score = after([(GuessOutcome::Wrong, 129), (GuessOutcome::InTime, 127)]);
        assert!(!score.is_worth_it());
        (0..PAUSE).for_each(|_| score.visited());
        assert!(score.is_worth_it());
        assert!(!after([(GuessOutcome::Late, 200), (GuessOutcome::InTheWay, 56)]).is_worth_it());
        assert!(
            after([(GuessOutcome::Wrong, 100), (GuessOutcome::InTheWay, 155)]).is_worth_it(),
            "not judged yet"
        );
    }
}
