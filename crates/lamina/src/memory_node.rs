//! Nodes of a machine's memory (NUMA): processors reach their own node's memory faster than that of others.

use lamina_base::files::read_text;
use std::{io, path::Path};

/// Where Linux tells of nodes; other systems have nothing there.
const NODES: &str = "/sys/devices/system/node";

/// A node, by the processors that this process may use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryNode {
    cpus: Vec<usize>,
}

#[cfg(target_os = "linux")]
impl MemoryNode {
    /// The nodes that have processors for this process, in their order; none where the system tells of none.
    pub fn all() -> Vec<MemoryNode> {
        let allowed = rustix::thread::sched_getaffinity(None);
        let may = |cpu: usize| allowed.as_ref().is_ok_and(|set| set.is_set(cpu));
        nodes_in(Path::new(NODES), &may)
    }

    /// Keeps the calling thread, and those that it starts, on this node's processors. What they write first lies in this
    /// node's memory while there is room, as the system places it where nobody asks for more.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn bind(&self) -> io::Result<()> {
        let mut set = rustix::thread::CpuSet::new();
        self.cpus.iter().for_each(|&cpu| set.set(cpu));
        Ok(rustix::thread::sched_setaffinity(None, &set)?)
    }

    /// Does `work` on this node's processors, and goes back to where the thread may run. Threads that it starts stay.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn visit<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let before = rustix::thread::sched_getaffinity(None)?;
        self.bind()?;
        let done = work();
        rustix::thread::sched_setaffinity(None, &before)?;
        Ok(done)
    }
}

/// Elsewhere threads are kept nowhere.
#[cfg(not(target_os = "linux"))]
impl MemoryNode {
    pub fn all() -> Vec<MemoryNode> {
        nodes_in(Path::new(NODES), &|_| true)
    }

    pub fn bind(&self) -> io::Result<()> {
        Ok(())
    }

    pub fn visit<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        Ok(work())
    }
}

impl MemoryNode {
    /// How many processors it has.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }
}

/// Nodes as Linux tells of them in `folder`: one folder each, with a list of its processors. Memory without a processor that
/// `may` be used is none.
fn nodes_in(folder: &Path, may: &dyn Fn(usize) -> bool) -> Vec<MemoryNode> {
    let number = |entry: io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse::<usize>().ok()
    };
    let mut numbers: Vec<usize> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(number).collect();
    numbers.sort_unstable();
    let node = |number: usize| {
        let list = read_text(&folder.join(format!("node{number}/cpulist"))).unwrap_or_default();
        MemoryNode { cpus: cpu_list(&list).into_iter().filter(|&cpu| may(cpu)).collect() }
    };
    numbers.into_iter().map(node).filter(|node| !node.cpus.is_empty()).collect()
}

/// Processors in a list such as `0-3,8`, of those that a set of the system has a place for.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse::<usize>().ok()?.min(1023))
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!((cpu_list("\n"), cpu_list("x-2,7")), (vec![], vec![7]));
        assert_eq!(cpu_list("1020-4000000000").len(), 4);
    }

    #[test]
    fn nodes_are_those_with_processors_for_this_process() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, list) in
            [("node10", "6-7"), ("node2", "2-3"), ("node0", "0-1"), ("node1", ""), ("possible", "0")]
        {
            fs::create_dir(folder.path().join(name)).expect("a folder");
            fs::write(folder.path().join(name).join("cpulist"), list).expect("a list");
        }
        let cpus = |may: &dyn Fn(usize) -> bool| {
            nodes_in(folder.path(), may).into_iter().map(|node| node.cpus).collect::<Vec<_>>()
        };
        assert_eq!(cpus(&|_| true), [[0, 1], [2, 3], [6, 7]], "in the order of their numbers");
        assert_eq!(cpus(&|cpu| cpu != 2 && cpu != 3), [[0, 1], [6, 7]], "a node that is another's");
        assert!(nodes_in(&folder.path().join("none"), &|_| true).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_stay_on_a_node_and_come_back() {
        let here = || std::thread::available_parallelism().expect("known").get();
        let all = here();
        for node in MemoryNode::all() {
            let one = MemoryNode { cpus: node.cpus[..1].to_vec() };
            let inside = one.visit(|| (here(), std::thread::spawn(here).join().expect("runs")));
            assert_eq!((inside.expect("bound"), here()), ((1, 1), all));
            std::thread::spawn(move || {
                one.bind().expect("bound");
                assert_eq!(here(), 1);
            })
            .join()
            .expect("bound");
        }
    }
}
