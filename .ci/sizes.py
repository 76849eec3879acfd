#!/usr/bin/env python3
"""Size and safety of the code: lines per crate, long files and functions, unsafe blocks with and without a note of its own."""

import re
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sources():
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "crates", "python"], capture_output=True, text=True, check=True)
    return [Path(f) for f in out.stdout.split() if f.endswith((".rs", ".py")) and "/tests/" not in f and "/benches/" not in f]


def body(path):
    """A file without its unit tests."""
    return re.split(r"#\[cfg\(test\)\]\s*mod tests \{", (ROOT / path).read_text())[0].split("\n")


def functions(lines):
    """Names and lengths of functions of formatted Rust code."""
    for i, line in enumerate(lines):
        found = re.match(r"( *)(?:pub(?:\([a-z]+\))? )?(?:const )?(?:unsafe )?fn (\w+)", line)
        # `fn name() = kernel(..)` is a line of the macro `shells!` and has no body.
        if found and not line.endswith(";") and "() = " not in line:
            end = next((j for j in range(i, len(lines)) if lines[j] == found[1] + "}"), None)
            if end is not None:
                yield found[2], end - i + 1


def unsafe_sites(lines):
    """Whether each unsafe block, function or implementation has a note of its own in the comments directly above it."""
    for i, line in enumerate(lines):
        if re.search(r"\bunsafe (\{|impl|trait|(extern \S+ )?fn \$?\w)", line.split("//")[0]):
            j = i - 1
            while j >= 0 and re.match(r"\s*(//|#\[)", lines[j]):
                j -= 1
            note = "\n".join(lines[j + 1 : i])
            yield "SAFETY:" in note or "# Safety" in note


def main():
    files = {path: body(path) for path in sources()}
    rust = {path: lines for path, lines in files.items() if path.suffix == ".rs"}
    found = [(n, f"{path}: {name}") for path, lines in rust.items() for name, n in functions(lines)]
    sizes = sorted(len(lines) for lines in files.values())
    lengths = sorted(n for n, _ in found)
    reasons = [ok for lines in rust.values() for ok in unsafe_sites(lines)]
    crates = {}
    for path, lines in files.items():
        key = "/".join(path.parts[:2])
        crates[key] = crates.get(key, 0) + len(lines)
    print(f"files {len(sizes)}, lines {sum(sizes)}, median {statistics.median(sizes)}, longest {sizes[-1]}")
    print(f"functions {len(lengths)}, median {statistics.median(lengths)}, 90 % below {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}")
    print(f"unsafe {len(reasons)}, without a note of its own {reasons.count(False)}")
    print("longest functions: " + "; ".join(f"{n} {name}" for n, name in sorted(found, reverse=True)[:5]))
    print("lines: " + ", ".join(f"{key} {n}" for key, n in sorted(crates.items())))


main()
