//! Counters of engines, which begin anew when a model is loaded again, as counters that never go down.

use lamina::{Counters, EncoderCounts, StepTallies, Tally};
use std::collections::HashMap;

/// What was read of each engine and of each encoder last.
#[derive(Default)]
pub(super) struct SeenCounters {
    engines: HashMap<String, Counters>,
    encoders: HashMap<(String, &'static str), EncoderCounts>,
}

impl SeenCounters {
    /// What has been added since the last time.
    pub fn since(&mut self, model: &str, now: Counters) -> Counters {
        let last = self.engines.insert(model.to_owned(), now).unwrap_or_default();
        // Fewer steps than before: another engine.
        let last = if now.steps < last.steps { Counters::default() } else { last };
        Counters {
            steps: now.steps - last.steps,
            preemptions: now.preemptions.saturating_sub(last.preemptions),
            swap: now.swap.since(last.swap),
            drafted: now.drafted.saturating_sub(last.drafted),
            accepted: now.accepted.saturating_sub(last.accepted),
            prompt_tokens: now.prompt_tokens.saturating_sub(last.prompt_tokens),
            disk_tokens: now.disk_tokens.saturating_sub(last.disk_tokens),
            cached_tokens: now.cached_tokens.saturating_sub(last.cached_tokens),
            phases: now.phases.since(&last.phases),
            tallies: tallies_since(&now.tallies, &last.tallies),
            ..Counters::default()
        }
    }

    /// What an encoder of a kind has done since the last time, and what it keeps now.
    pub fn since_encoder(&mut self, model: &str, kind: &'static str, now: EncoderCounts) -> EncoderCounts {
        let last = self.encoders.insert((model.to_owned(), kind), now).unwrap_or_default();
        // Fewer than before: another encoder.
        let last = if now.cache_queries < last.cache_queries { EncoderCounts::default() } else { last };
        EncoderCounts {
            cache_hits: now.cache_hits.saturating_sub(last.cache_hits),
            cache_queries: now.cache_queries - last.cache_queries,
            ..now
        }
    }
}

fn tallies_since(now: &StepTallies, last: &StepTallies) -> StepTallies {
    let since = |now: &Tally, last: &Tally| {
        let mut added = Tally::default();
        added.add_since(now, last);
        added
    };
    StepTallies {
        decode: since(&now.decode, &last.decode),
        prompt: since(&now.prompt, &last.prompt),
        mixed: since(&now.mixed, &last.mixed),
        rows: since(&now.rows, &last.rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_loaded_again_goes_on_counting() {
        let mut seen = SeenCounters::default();
        let at = |steps| Counters { steps, ..Counters::default() };
        let added = [5, 9, 2].map(|steps| seen.since("m", at(steps)).steps);
        assert_eq!(added, [5, 4, 2]);
        let of = |cache_hits, cache_queries| EncoderCounts {
            cache_hits,
            cache_queries,
            ..EncoderCounts::default()
        };
        let added = [of(1, 4), of(3, 9), of(0, 2)].map(|now| seen.since_encoder("m", "image", now));
        assert_eq!(added, [of(1, 4), of(2, 5), of(0, 2)]);
        assert_eq!(seen.since_encoder("m", "audio", of(1, 1)), of(1, 1), "each kind by itself");
    }
}
