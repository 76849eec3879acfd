//! Limits of the memory groups (cgroups) that a process is in: its own and all above, since each of them counts.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Limits from here on mean that there is none: version 1 writes the largest number of whole pages.
const NONE: u64 = 1 << 60;

/// What memory groups leave to a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRoom {
    /// The lowest limit.
    pub limit: u64,
    /// The least that is left in any group: its limit without what is used. File pages that the system can drop at any time
    /// do not count as used.
    pub room: u64,
}

/// The limits of this process; none where no group has one.
pub fn group_room() -> Option<GroupRoom> {
    room_below(Path::new("/"))
}

/// The same, with `/proc` and the mounted groups below `root`.
fn room_below(root: &Path) -> Option<GroupRoom> {
    let rooms = folders(root).into_iter().filter_map(|(version, folder)| version.room(&folder));
    rooms.reduce(|a, b| GroupRoom { limit: a.limit.min(b.limit), room: a.room.min(b.room) })
}

/// How groups are presented: the two versions name their files differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn room(self, folder: &Path) -> Option<GroupRoom> {
        let (limits, used, reclaimable): (&[&str], _, _) = match self {
            Version::One => (
                &["memory.limit_in_bytes"],
                "memory.usage_in_bytes",
                ["total_inactive_file", "total_active_file"],
            ),
            // Above `memory.high` the system does not kill, but it stalls whoever allocates.
            Version::Two => {
                (&["memory.max", "memory.high"], "memory.current", ["inactive_file", "active_file"])
            }
        };
        let limit = limits.iter().filter_map(|file| number(folder, file)).min().filter(|&n| n < NONE)?;
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let value = |key: &str| {
            let line = stat.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
            line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let used = number(folder, used)?.saturating_sub(reclaimable.into_iter().map(value).sum());
        Some(GroupRoom { limit, room: limit.saturating_sub(used) })
    }
}

/// The number in a file; none for a word such as `max`.
fn number(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// Folders of the groups of this process, from its own up to those that are mounted.
fn folders(root: &Path) -> Vec<(Version, PathBuf)> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut folders = vec![];
    for (version, inside, at) in mounts.lines().filter_map(mount) {
        let Some(group) = groups.lines().find_map(|line| group(line, version)) else { continue };
        // Below what a container has mounted; groups outside of it cannot be seen, and have paths with `..`.
        let relative = Path::new(group).strip_prefix(inside).unwrap_or(Path::new(""));
        let relative = if group.contains("..") { Path::new("") } else { relative };
        for folder in relative.ancestors() {
            folders.push((version, root.join(at.trim_start_matches('/')).join(folder)));
        }
    }
    folders
}

/// The path of a line of `/proc/self/cgroup` (`4:memory:/a/b`, `0::/a/b`), if it is of the memory groups of `version`.
fn group(line: &str, version: Version) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = match version {
        Version::One => controllers.split(',').any(|c| c == "memory"),
        Version::Two => number == "0" && controllers.is_empty(),
    };
    ours.then_some(path)
}

/// Version, root and place of a line of `/proc/self/mountinfo`, if memory groups are mounted there.
fn mount(line: &str) -> Option<(Version, &str, &str)> {
    let (front, back) = line.split_once(" - ")?;
    let (mut front, mut back) = (front.split(' ').skip(3), back.split(' '));
    let (inside, at) = (front.next()?, front.next()?);
    let (kind, _source, options) = (back.next()?, back.next()?, back.next()?);
    let version = match kind {
        "cgroup2" => Version::Two,
        "cgroup" if options.split(',').any(|o| o == "memory") => Version::One,
        _ => return None,
    };
    Some((version, inside, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A folder with files, which goes with this value.
    struct MadeTree(PathBuf);

    impl MadeTree {
        fn new(files: &[(&str, &str)]) -> MadeTree {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let name =
                format!("lamina-groups-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
                fs::write(path, text).expect("writes");
            }
            MadeTree(root)
        }

        fn room(&self) -> Option<GroupRoom> {
            room_below(&self.0)
        }
    }

    impl Drop for MadeTree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const TWO: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const ONE: &str = "30 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                       35 30 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                       36 30 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";

    #[test]
    fn the_tightest_group_above_counts_in_version_2() {
        let tree = MadeTree::new(&[
            ("proc/self/cgroup", "0::/a/b/c\n"),
            ("proc/self/mountinfo", TWO),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "900000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 100000\nactive_file 50000\nfile 7\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "800000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100000\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/c/memory.current", "1\n"),
        ]);
        assert_eq!(tree.room(), Some(GroupRoom { limit: 800_000, room: 250_000 }));
    }

    #[test]
    fn the_tightest_group_above_counts_in_version_1() {
        let tree = MadeTree::new(&[
            ("proc/self/cgroup", "4:memory,hugetlb:/outer/inner\n1:cpu:/other\n0::/\n"),
            ("proc/self/mountinfo", ONE),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n"),
            ("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "2000\n"),
            ("sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "1900\n"),
            (
                "sys/fs/cgroup/memory/outer/memory.stat",
                "inactive_file 9\ntotal_inactive_file 400\ntotal_active_file 0\n",
            ),
            ("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/outer/inner/memory.usage_in_bytes", "100\n"),
        ]);
        assert_eq!(tree.room(), Some(GroupRoom { limit: 1000, room: 500 }));
    }

    #[test]
    fn a_container_sees_its_own_groups_only() {
        // The group's path is that of the host; what is mounted begins at it.
        let mounted = "31 23 0:28 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = |group: &'static str| {
            [
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", mounted),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "300\n"),
            ]
        };
        for group in ["4:memory:/docker/1f\n", "4:memory:/\n", "4:memory:/../other\n"] {
            assert_eq!(MadeTree::new(&files(group)).room(), Some(GroupRoom { limit: 700, room: 400 }));
        }
    }

    #[test]
    fn no_limit_and_no_groups_are_none() {
        let none = [("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", TWO)];
        assert_eq!(MadeTree::new(&none).room(), None);
        assert_eq!(MadeTree::new(&[]).room(), None);
        let broken = [
            ("proc/self/cgroup", "nonsense\n::\n4:memory\n0::/x\n"),
            ("proc/self/mountinfo", "- - -\n1 2 - cgroup2\n1 2 3 / /g rw - cgroup2 none rw\n"),
            ("g/x/memory.max", "12 apples\n"),
            ("g/memory.max", "-3\n"),
        ];
        assert_eq!(MadeTree::new(&broken).room(), None);
    }
}
