//! Ranks in threads of this process: one answer on several nodes of a machine's memory, without a process to start.

use crate::{
    error::{Error, Result},
    met_rank::{MetRank, meet_at},
    options::LoadOptions,
};
use lamina_base::resident_memory;
use lamina_plan::Backend;
use lamina_planner::MemoryLimit;
use lamina_ranks::{MemoryRank, RankAbout, RankLine, ThreadBinding};
use std::thread;

/// Ranks of this process, before they know what they compute. They end with the model.
pub struct LocalRanks {
    lines: Vec<RankLine>,
    memory: MemoryRank,
}

impl LocalRanks {
    /// Starts a thread for each of so many ranks but the first, which leads, on threads that `binding` is called on; each runs
    /// `serve` with its number, its connection to the leader, and what columns go by.
    ///
    /// # Errors
    /// When the system gives no thread or no connection.
    pub fn start(
        ranks: usize,
        binding: ThreadBinding,
        serve: impl Fn(usize, &RankLine, MemoryRank) + Clone + Send + 'static,
    ) -> Result<LocalRanks> {
        let cannot = |e: std::io::Error| Error::Runtime(format!("no thread for a rank: {e}"));
        let mut group = MemoryRank::group(ranks).into_iter();
        let memory = group.next().expect("there is a leader").bound_by(binding);
        let mut lines = vec![];
        for (rank, memory) in (1..).zip(group) {
            let (leader, line) = RankLine::pair().map_err(cannot)?;
            let (serve, thread) = (serve.clone(), thread::Builder::new().name(format!("lamina-rank-{rank}")));
            let thread = thread.spawn(move || serve(rank, &line, memory)).map_err(cannot)?;
            lines.push(leader.of_thread(thread));
        }
        Ok(LocalRanks { lines, memory })
    }

    /// Has them open the leader's model, which `own` describes.
    pub(crate) fn meet(
        self,
        options: &LoadOptions,
        own: &RankAbout,
    ) -> Result<(Vec<MetRank>, Option<MemoryRank>)> {
        let named = (1..).zip(self.lines).map(|(rank, line)| (line, format!("{rank} of this process")));
        let met = named.map(|(line, name)| meet_at(line, &name, options, own));
        Ok((met.collect::<Result<_>>()?, Some(self.memory)))
    }
}

impl LoadOptions {
    /// What each of so many ranks of one process is loaded with: its part of what `backend`, where it is the memory of all of
    /// them, and the cache may take.
    #[must_use]
    pub fn for_each_rank(&self, ranks: usize, backend: &dyn Backend) -> LoadOptions {
        let part = |bytes: u64| bytes / ranks.max(1) as u64;
        let shared = backend.capabilities().shares_memory;
        let memory = self.placing().memory_of(backend).filter(|_| shared);
        // What this process holds already is nobody's part.
        let held = resident_memory().unwrap_or(0);
        let memory = memory.map(|memory| MemoryLimit::Bytes(held + part(memory.free)));
        LoadOptions {
            memory: memory.or(self.memory),
            kv_memory: self.kv_memory.map(|bytes| if shared { part(bytes) } else { bytes }),
            ..self.clone()
        }
    }
}
