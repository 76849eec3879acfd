"""A memory group (cgroup) for one child, so that engines are held against each other under the same limit."""

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group below the one that this process is in (version 1), or beside it (version 2)."""

    def __init__(self, folder, limit, peak):
        self.folder, self.limit, self.peak_file = folder, limit, peak

    def enter(self):
        """Called in the child, before it becomes another program."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        """Most bytes that its processes had, with what the page cache held for them; None where the system does not say."""
        try:
            return int((self.folder / self.peak_file).read_text())
        except (OSError, ValueError):
            return None


def _candidates():
    """Where a group can be made: folder, the file of its limit, and that of its peak."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"
        elif number == "0" and not controllers:
            # A group with processes of its own can have no groups below it that limit memory.
            yield (ROOT / path.lstrip("/")).parent, "memory.max", "memory.peak"


@contextlib.contextmanager
def memory_group(limit):
    """A group of `limit` bytes for as long as the context lasts; None where none can be made, as in most containers."""
    group = None
    for parent, limit_file, peak_file in _candidates():
        folder = parent / f"bench-{os.getpid()}-{time.monotonic_ns()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit_file).write_text(str(limit))
        except OSError:
            folder.rmdir()
            continue
        group = MemoryGroup(folder, limit, peak_file)
        break
    try:
        yield group
    finally:
        if group:
            _remove(group.folder)


def _remove(folder):
    """The system lets go of a group a moment after its last process has ended."""
    for _ in range(50):
        try:
            return folder.rmdir()
        except OSError:
            time.sleep(0.1)


def forget(*paths):
    """Has the page cache drop files, and all files of folders: what others have cached costs a group nothing."""
    for path in map(Path, paths):
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file() and hasattr(os, "posix_fadvise"):
                handle = os.open(file, os.O_RDONLY)
                with contextlib.suppress(OSError):
                    os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(handle)
