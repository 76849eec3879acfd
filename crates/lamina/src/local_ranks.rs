//! A model in several ranks of this process, each with its part of the machine.

use crate::{
    Error, Result, backend_on, checkpoint, device::has_gpu, memory_node::MemoryNode, rank_service::serve_one,
    threads::default_threads,
};
use lamina_load::{Device, LoadOptions, Loaded, LocalRanks, Progress, RankList, ThreadBinding, open_with};
use std::{io, path::Path};

/// Where the ranks of this process run.
#[derive(Clone)]
pub(crate) struct RankPlaces {
    /// The node of each rank, the leader's first; none: all processors of the process.
    nodes: Vec<Option<MemoryNode>>,
}

impl RankPlaces {
    /// The places of the ranks that `tp` asks for; none where they are other processes. A single one stands for a model that
    /// is not divided.
    pub fn of(tp: &RankList) -> Option<RankPlaces> {
        let nodes = match tp {
            RankList::At(_) => return None,
            RankList::Here(ranks) => vec![None; *ranks],
            RankList::Nodes => MemoryNode::all().into_iter().map(Some).take(RankList::MOST).collect(),
        };
        Some(RankPlaces { nodes })
    }

    /// True where there is nothing to divide.
    pub fn is_one(&self) -> bool {
        self.nodes.len() < 2
    }

    /// Loads the model at `path` and builds its engine on all of them.
    ///
    /// # Errors
    /// As for [`crate::open()`].
    pub fn open(&self, path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
        if options.device == Device::Auto && has_gpu() {
            options
                .report
                .line("ranks of one process (tp) run on the processor: device=cuda gives each a GPU");
        }
        let threads = self.threads(options.threads.unwrap_or_else(default_threads));
        let own =
            LoadOptions { threads: Some(threads), device: on_rank(0, options.device)?, ..options.clone() };
        let load = || {
            let (ck, backend) = (checkpoint(path)?, backend_on(own.device, own.threads)?);
            let own = own.for_each_rank(self.nodes.len(), &*backend);
            let ranks = self.start(path, &own)?;
            open_with(&ck, &own, backend, Some(ranks), progress)
        };
        match &self.nodes[0] {
            Some(node) => node.visit(load).map_err(|e| unbound(0, &e))?,
            None => load(),
        }
    }

    /// Starts all ranks but the leader, which is loaded with `options`.
    fn start(&self, path: Option<&Path>, options: &LoadOptions) -> Result<LocalRanks> {
        let (places, path, options) = (self.clone(), path.map(Path::to_owned), options.clone());
        LocalRanks::start(self.nodes.len(), self.binding(0), move |rank, line, memory| {
            let ready = places.bind(rank).and_then(|()| on_rank(rank, options.device));
            match ready {
                Ok(device) => {
                    let own = LoadOptions { device, ..options.clone() };
                    // The leader is told what ends it.
                    serve_one(path.as_deref(), &own, (line, Some(memory)), (&|_| (), &|_, _| true));
                }
                Err(e) => _ = line.refuse(&e.to_string()),
            }
        })
    }

    /// Of so many threads in all, those of each rank: no more than its node has processors.
    fn threads(&self, all: usize) -> usize {
        let most = self.nodes.iter().flatten().map(MemoryNode::cpus).min().unwrap_or(usize::MAX);
        (all / self.nodes.len()).max(all.min(1)).min(most)
    }

    fn bind(&self, rank: usize) -> Result<()> {
        self.nodes[rank].as_ref().map_or(Ok(()), |node| node.bind().map_err(|e| unbound(rank, &e)))
    }

    /// Keeps threads on the processors of a rank. Where that fails, it is slower, and no answer is another one.
    fn binding(&self, rank: usize) -> ThreadBinding {
        let node = self.nodes[rank].clone();
        Box::new(move || node.iter().for_each(|node| _ = node.bind()))
    }
}

/// The device of a rank, where the leader was asked to take `device`: each has a GPU of its own, or all have the processor.
fn on_rank(rank: usize, device: Device) -> Result<Device> {
    match device {
        Device::Cuda(first) => Ok(Device::Cuda(first + rank)),
        Device::Auto | Device::Cpu => Ok(Device::Cpu),
        Device::Metal => Err(Error::Unsupported(
            "several ranks (tp) on metal: each needs a device of its own; take device=cpu, or leave tp out"
                .into(),
        )),
    }
}

fn unbound(rank: usize, e: &io::Error) -> Error {
    Error::Runtime(format!("rank {rank} cannot be kept on its node's processors: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_devices_are_divided() {
        let places = |ranks| RankPlaces::of(&RankList::Here(ranks)).expect("ranks of this process");
        assert_eq!([0, 1, 2, 7, 16].map(|all| places(2).threads(all)), [0, 1, 1, 3, 8]);
        assert!(places(1).is_one() && RankPlaces::of(&RankList::default()).is_none());
        assert_eq!(on_rank(2, Device::Cuda(1)).expect("a GPU"), Device::Cuda(3));
        assert_eq!(on_rank(1, Device::Auto).expect("the processor"), Device::Cpu);
        assert!(on_rank(0, Device::Metal).is_err());
    }
}
