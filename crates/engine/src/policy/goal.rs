//! The times that answers are to keep.

use std::{str::FromStr, time::Duration};

/// Time between tokens up to which prompts may take a step, where no goal says: nobody who reads notices it.
const BETWEEN: Duration = Duration::from_millis(100);

/// The longest times that an answer may take; none where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// To the first token.
    pub first: Option<Duration>,
    /// Between tokens.
    pub between: Option<Duration>,
}

impl Goal {
    /// How long a step may take while answers are written.
    pub(crate) fn gap(&self) -> Duration {
        self.between.unwrap_or(BETWEEN)
    }
}

impl FromStr for Goal {
    type Err = String;

    /// Written as `ttft=500,tbt=50`, in milliseconds; what is missing is no limit.
    fn from_str(text: &str) -> Result<Goal, String> {
        let mut goal = Goal::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or("is no goal; write it as ttft=500,tbt=50")?;
            let ms: f64 =
                value.trim().parse().map_err(|_| format!("`{value}` is no number of milliseconds"))?;
            let limit = Duration::try_from_secs_f64(ms / 1e3).map_err(|e| format!("`{value}`: {e}"))?;
            match name.trim() {
                "ttft" => goal.first = Some(limit),
                "tbt" | "tpot" | "itl" => goal.between = Some(limit),
                other => return Err(format!("`{other}` is no time of an answer; there are ttft and tbt")),
            }
        }
        Ok(goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        let goal: Goal = "ttft=500,tbt=50".parse().unwrap();
        assert_eq!(
            (goal.first, goal.between),
            (Some(Duration::from_millis(500)), Some(Duration::from_millis(50)))
        );
        assert_eq!("tbt=1".parse::<Goal>().unwrap().first, None);
        for wrong in ["", "ttft", "ttft=x", "speed=1", "ttft=-1"] {
            assert!(wrong.parse::<Goal>().is_err(), "{wrong}");
        }
    }
}
