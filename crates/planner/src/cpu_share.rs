//! The share of the CPU that a process got while it measured: what others on the machine take is no speed of the machine.

use std::{
    fs,
    time::{Duration, Instant},
};

/// CPU time of all threads of the process so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock {
    at: Instant,
    /// Threads ran.
    running: Duration,
    /// Threads could have run, and others did.
    waiting: Duration,
}

impl CpuClock {
    /// The present time; none where the system does not say.
    pub fn now() -> Option<CpuClock> {
        let tasks = fs::read_dir("/proc/self/task").ok()?.flatten();
        let times: Vec<_> = tasks
            .filter_map(|task| scheduled(&fs::read_to_string(task.path().join("schedstat")).ok()?))
            .collect();
        let sum = |of: fn(&(Duration, Duration)) -> Duration| times.iter().map(of).sum();
        (!times.is_empty()).then(|| CpuClock {
            at: Instant::now(),
            running: sum(|t| t.0),
            waiting: sum(|t| t.1),
        })
    }

    /// The share of the time that threads wanted to run since `before`, and did. Where the host itself `computes`, the process
    /// also has to have had that share of one CPU: what limits its group is no waiting of a thread.
    pub fn share_since(&self, before: &CpuClock, computes: bool) -> f64 {
        let seconds = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64();
        let (running, waiting) =
            (seconds(self.running, before.running), seconds(self.waiting, before.waiting));
        let wanted = running / (running + waiting).max(1e-9);
        let of_one = if computes { running / (self.at - before.at).as_secs_f64().max(1e-9) } else { 1.0 };
        wanted.min(of_one).min(1.0)
    }
}

/// Times that a thread ran and waited, as Linux writes them: two numbers of nanoseconds come first.
fn scheduled(text: &str) -> Option<(Duration, Duration)> {
    let mut numbers = text.split_whitespace().map(|n| n.parse().map(Duration::from_nanos).ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_smaller_of_what_was_wanted_and_of_one_cpu() {
        let at = Instant::now();
        let clock = |wall: u64, running: u64, waiting: u64| CpuClock {
            at: at + Duration::from_millis(wall),
            running: Duration::from_millis(running),
            waiting: Duration::from_millis(waiting),
        };
        let share = |now: CpuClock, computes| now.share_since(&clock(0, 50, 5), computes);
        assert_eq!(share(clock(1000, 1850, 205), true), 0.9);
        // Nobody waited, but the group was stopped half of the time.
        assert_eq!(share(clock(1000, 550, 5), true), 0.5);
        // A device computes while the host waits for it.
        assert_eq!(share(clock(1000, 60, 5), false), 1.0);
        assert_eq!(scheduled("1500 20 7\n"), Some((Duration::from_nanos(1500), Duration::from_nanos(20))));
        assert_eq!(scheduled("no numbers"), None);
    }
}
