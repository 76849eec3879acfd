#!/usr/bin/env python3
"""What every line of a record carries beside its figures: date, commit, CPU, and the version of what it is held against.

    lamina bench model.gguf --json | python benches/record.py benches/record/bench.jsonl

adds the object on standard input to a record; peers.py and perplexity.py do the same with their rows.
"""

import datetime
import importlib.metadata
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = "llama_cpp_python"


def cpu():
    """The CPU's model, as the system names it."""
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit():
    """The commit that is checked out, with `+` where files differ from it; None outside a clone."""
    name = _output("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    # Records grow while they are measured: they do not count.
    changed = _output("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!benches/record")
    return f"{name}+" if name and changed else name


def peer():
    """The package that figures are held against, such as "llama_cpp_python 0.3.16"; None where it is not installed."""
    try:
        return f"{PEER} {importlib.metadata.version(PEER)}"
    except importlib.metadata.PackageNotFoundError:
        return None


def stamp(**more):
    """The fields that every line begins with."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"date": now.isoformat(timespec="seconds"), "commit": commit(), "cpu": cpu(), **more}


def append(path, row, **more):
    """Adds a row to a record. What the row says itself wins."""
    stamped = stamp(**more)
    given = {key: value for key, value in row.items() if value is not None or key not in stamped}
    with Path(path).open("a") as file:
        print(json.dumps({**stamped, **given}), file=file)


def _output(*command):
    try:
        out = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    except OSError:
        return None
    return out.stdout.strip() or None if out.returncode == 0 else None


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    append(sys.argv[1], json.load(sys.stdin))
