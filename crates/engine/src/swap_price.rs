//! Whether a preempted sequence is swapped or computed again: the cheaper of both, by what was measured.

use crate::policy::cost::Cost;

/// When preempted sequences are swapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwapChoice {
    /// Where that takes less time than computing them again.
    #[default]
    Cheaper,
    /// Wherever there is room: for tests and measurements.
    Always,
}

/// What swapping costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SwapPrice {
    /// Bytes of a page of each layer group.
    pub page_bytes: Vec<usize>,
    /// Bytes of a recurrent state.
    pub state_bytes: usize,
    /// Seconds of a byte, out and back.
    pub seconds_per_byte: f64,
    /// When it is done at all.
    pub choice: SwapChoice,
}

impl SwapPrice {
    /// True where pages of each group (and a state) of a sequence with `computed` tokens are better swapped than computed
    /// again, in steps of `rows` rows. Before any step was measured nothing is swapped.
    pub fn pays(&self, pages: &[usize], computed: usize, rows: usize, cost: &Cost) -> bool {
        let bytes: usize = pages.iter().zip(&self.page_bytes).map(|(n, bytes)| n * bytes).sum();
        let seconds = (bytes + self.state_bytes) as f64 * self.seconds_per_byte;
        match self.choice {
            SwapChoice::Always => true,
            SwapChoice::Cheaper => cost.prompt(computed, rows).is_some_and(|again| seconds < again),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::cost::Size;
    use std::time::Duration;

    #[test]
    fn the_cheaper_way_is_taken() {
        let price = |seconds_per_byte, choice| SwapPrice {
            page_bytes: vec![1000, 500],
            state_bytes: 100,
            seconds_per_byte,
            choice,
        };
        let mut cost = Cost::default();
        let pays = |per_byte, cost: &Cost| price(per_byte, SwapChoice::Cheaper).pays(&[4, 2], 128, 64, cost);
        assert!(!pays(0.0, &cost), "nothing is known yet");
        cost.note(Size { rows: 64, depth: 64 }, Duration::from_millis(100));
        // Two steps of a tenth of a second against 5,100 bytes.
        assert!(pays(0.19 / 5100.0, &cost) && !pays(0.21 / 5100.0, &cost));
        assert!(price(9.0, SwapChoice::Always).pays(&[4, 2], 128, 64, &Cost::default()));
    }
}
