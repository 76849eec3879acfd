//! Ranks of one process: what one of them has computed is read by the others where it lies, and nothing is sent.

use crate::{RankError, Result, columns::SharedRows, shard_exchange::ShardExchange};
use lamina_plan::GatherTo;
use std::{
    collections::VecDeque,
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// How often a rank looks for what another one computes before it gives its core to others: some ten microseconds.
const SPINS: u32 = 1_000;
/// How long it looks before it sleeps: longer than a step takes where a millisecond counts.
const PATIENCE: Duration = Duration::from_millis(100);

/// What one rank has for another one, in the order in which it was computed.
#[derive(Debug, Default)]
struct PartQueue {
    parts: Mutex<VecDeque<Arc<Vec<u8>>>>,
    /// How many there are: looked at without the lock.
    count: AtomicUsize,
    came: Condvar,
}

impl PartQueue {
    fn locked(&self) -> MutexGuard<'_, VecDeque<Arc<Vec<u8>>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, part: Arc<Vec<u8>>) {
        let mut parts = self.locked();
        parts.push_back(part);
        self.count.store(parts.len(), Ordering::Release);
        self.came.notify_one();
    }

    fn pop(&self) -> Option<Arc<Vec<u8>>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut parts = self.locked();
        let first = parts.pop_front();
        self.count.store(parts.len(), Ordering::Release);
        first
    }

    /// Sleeps until something has come, for a while at most.
    fn sleep(&self) {
        let parts = self.locked();
        _ = self.came.wait_timeout_while(parts, PATIENCE, |parts| parts.is_empty());
    }
}

/// What all ranks of a process share.
#[derive(Debug)]
struct SharedParts {
    /// For each rank, what each rank has for it.
    queues: Vec<Vec<PartQueue>>,
    /// Why the first that has left did so.
    left: OnceLock<String>,
}

/// Brings the calling thread to the processors of a rank.
pub type ThreadBinding = Box<dyn FnMut() + Send>;

/// One of the ranks of a process. The others know from it that this one lives, until it is dropped.
pub struct MemoryRank {
    rank: usize,
    shared: Arc<SharedParts>,
    /// Parts that were told, to be written anew once nobody reads them.
    told: Vec<Arc<Vec<u8>>>,
    binding: Option<ThreadBinding>,
    /// The thread that was bound last.
    bound: Option<ThreadId>,
}

impl MemoryRank {
    /// So many ranks, of which the first leads.
    pub fn group(ranks: usize) -> Vec<MemoryRank> {
        let queues = || (0..ranks).map(|_| PartQueue::default()).collect();
        let shared = SharedParts { queues: (0..ranks).map(|_| queues()).collect(), left: OnceLock::new() };
        let shared = Arc::new(shared);
        let one =
            |rank| MemoryRank { rank, shared: shared.clone(), told: vec![], binding: None, bound: None };
        (0..ranks).map(one).collect()
    }

    /// The same rank, whose steps run on threads that `binding` was called on.
    #[must_use]
    pub fn bound_by(mut self, binding: ThreadBinding) -> MemoryRank {
        self.binding = Some(binding);
        self
    }

    fn bind(&mut self) {
        let now = thread::current().id();
        if let Some(binding) = self.binding.as_mut().filter(|_| self.bound != Some(now)) {
            binding();
            self.bound = Some(now);
        }
    }

    /// Tells the others that nothing comes from here any more, and why.
    pub(crate) fn leave(&self, why: &str) {
        _ = self.shared.left.set(format!("rank {} of this process: {why}", self.rank));
        self.shared.queues.iter().flatten().for_each(|queue| queue.came.notify_all());
    }

    /// An empty part to write: one that was told and that nobody reads any more, where there is one.
    fn part(&mut self) -> Arc<Vec<u8>> {
        let free = self.told.iter_mut().position(|part| Arc::get_mut(part).is_some());
        free.map_or_else(Arc::default, |i| self.told.swap_remove(i))
    }

    fn tell(&self, part: &Arc<Vec<u8>>, to: GatherTo) {
        for (rank, queues) in self.shared.queues.iter().enumerate() {
            if rank != self.rank && (to == GatherTo::All || rank == 0) {
                queues[self.rank].push(part.clone());
            }
        }
    }

    /// What rank `from` has computed, once it has.
    fn take(&self, from: usize) -> Result<Arc<Vec<u8>>> {
        let queue = &self.shared.queues[self.rank][from];
        let (mut spins, mut begun) = (0, None);
        loop {
            let left = self.shared.left.get();
            // Who has told everything may leave before this is read.
            if let Some(part) = queue.pop() {
                return Ok(part);
            }
            if let Some(why) = left {
                return Err(RankError::Told(why.clone()));
            }
            spins += 1;
            match begun {
                _ if spins < SPINS => spin_loop(),
                None => begun = Some(Instant::now()),
                // To whoever has work where there are fewer cores than ranks.
                Some(begun) if begun.elapsed() < PATIENCE => thread::yield_now(),
                Some(_) => queue.sleep(),
            }
        }
    }

    /// Puts in what the others have computed.
    fn put(&self, rows: &mut dyn SharedRows, own: &[u8]) -> Result<()> {
        let others = (0..self.shared.queues.len()).filter(|rank| *rank != self.rank);
        let found: Vec<_> = others.map(|rank| Ok((rank, self.take(rank)?))).collect::<Result<_>>()?;
        let found: Vec<(usize, &[u8])> = found.iter().map(|(rank, part)| (*rank, &part[..])).collect();
        rows.put(own, &found)
    }
}

impl Drop for MemoryRank {
    fn drop(&mut self) {
        self.leave("it has ended");
    }
}

impl ShardExchange for MemoryRank {
    fn bring(&mut self, rows: &mut dyn SharedRows, to: GatherTo) -> Result<()> {
        self.bind();
        let mut own = self.part();
        rows.own(Arc::make_mut(&mut own))?;
        let takes = to == GatherTo::All || self.rank == 0;
        if self.rank != 0 || to == GatherTo::All {
            self.tell(&own, to);
        }
        let done = if takes { self.put(rows, &own) } else { Ok(()) };
        self.told.push(own);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank's number in every round, as rows.
    struct Numbers {
        rank: u8,
        round: u8,
        found: Vec<(usize, Vec<u8>)>,
    }

    impl SharedRows for Numbers {
        fn own(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
            *bytes = vec![self.rank, self.round];
            Ok(())
        }

        fn put(&mut self, own: &[u8], others: &[(usize, &[u8])]) -> Result<()> {
            assert_eq!(own, [self.rank, self.round]);
            self.found = others.iter().map(|(rank, bytes)| (*rank, bytes.to_vec())).collect();
            Ok(())
        }
    }

    /// Rounds go to all, but for every third one, which goes to the leader alone; one rank is late now and then.
    fn rounds(mut rank: MemoryRank, ranks: usize) {
        for round in 0..200u8 {
            let to = if round % 3 == 2 { GatherTo::Leader } else { GatherTo::All };
            if round % 50 == rank.rank as u8 {
                thread::sleep(Duration::from_millis(3));
            }
            let mut numbers = Numbers { rank: rank.rank as u8, round, found: vec![] };
            rank.bring(&mut numbers, to).expect("all are there");
            let reads = to == GatherTo::All || rank.rank == 0;
            let others = (0..ranks).filter(|other| reads && *other != rank.rank);
            assert_eq!(
                numbers.found,
                others.map(|other| (other, vec![other as u8, round])).collect::<Vec<_>>()
            );
        }
        // One that is read now, one that is told, and what goes to a leader who is late.
        assert!(rank.told.len() < 20, "parts are written anew: {}", rank.told.len());
    }

    #[test]
    fn every_round_of_every_rank_is_read_once_and_in_order() {
        for ranks in [2, 3, 8] {
            thread::scope(|scope| {
                for rank in MemoryRank::group(ranks) {
                    scope.spawn(move || rounds(rank, ranks));
                }
            });
        }
    }

    #[test]
    fn each_thread_is_bound_once() {
        let (calls, told) = std::sync::mpsc::channel();
        let mut group = MemoryRank::group(1);
        let rank = group.pop().expect("a rank");
        let mut rank = rank.bound_by(Box::new(move || _ = calls.send(thread::current().id())));
        let mut step = || {
            let mut numbers = Numbers { rank: 0, round: 0, found: vec![] };
            (0..3).for_each(|_| rank.bring(&mut numbers, GatherTo::All).expect("alone"));
            thread::current().id()
        };
        let here = step();
        let there = thread::scope(|scope| scope.spawn(step).join().expect("runs"));
        drop(rank);
        assert_eq!(told.iter().collect::<Vec<_>>(), [here, there]);
    }

    #[test]
    fn who_waits_for_one_that_has_left_is_told_why() {
        let mut group = MemoryRank::group(3);
        let (last, waits) = (group.pop().expect("a rank"), group.remove(0));
        let waiting = thread::spawn(move || {
            let first = waits.take(2).map(|part| part.to_vec());
            (first, waits.take(2).expect_err("it has left").to_string())
        });
        last.tell(&Arc::new(vec![7]), GatherTo::All);
        // Longer than a rank looks before it sleeps.
        thread::sleep(PATIENCE * 2);
        last.leave("no memory");
        drop(last);
        let (first, why) = waiting.join().expect("ends");
        assert_eq!(
            (first.expect("told before"), why.as_str()),
            (vec![7], "rank 2 of this process: no memory")
        );
    }
}
