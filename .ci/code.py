#!/usr/bin/env python3
"""The machine code of a library or program that still has its symbols: by package, by function with all its instances (generics
of one definition together), and its largest symbols. What is generic belongs to the package that defines it.

    .ci/code.py FILE [WORD]      WORD: only symbols that have it in their name

Built by `CARGO_PROFILE_DIST_STRIP=none cargo build --profile dist -p lamina-py`.
"""

import re
import subprocess
import sys
from collections import Counter

ROWS = 80


def symbols(path):
    """Sizes and names; several names of one address count once."""
    seen = set()
    listed = subprocess.run(["nm", "-S", "--defined-only", "--demangle", path], capture_output=True, text=True, check=True).stdout
    for address, size, name in re.findall(r"^(\w{16}) (\w{16}) [tTwW] (.*)$", listed, re.MULTILINE):
        if address not in seen:
            seen.add(address)
            yield int(size, 16), name


def definition(name):
    """A name without its generic arguments, hash and crate numbers."""
    name = re.sub(r"::h[0-9a-f]{16}$|\.llvm\.\d+$|\[[0-9a-f]{16}\]", "", name)
    kept, depth = [], 0
    for i, c in enumerate(name):
        opens = c == "<" and (depth or (i and (name[i - 1].isalnum() or name[i - 1] == ":")))
        closes = c == ">" and depth and name[i - 1] != "-"
        if not depth and not opens:
            kept.append(c)
        depth += bool(opens) - bool(closes)
    return "".join(kept)


def package(name):
    found = re.search(r"([a-z_][a-z0-9_]*)(?:\[[0-9a-f]+\])?::", name)
    return found[1] if found else "(C)"


def table(title, bytes_of, count):
    print(f"== {title}")
    for name, size in bytes_of.most_common(ROWS):
        print(f"{size:>10,} {count[name]:>6} {name[:200]}")


def main(path, word=""):
    found = [(size, name) for size, name in symbols(path) if word in name]
    print(f"{sum(size for size, _ in found):,} bytes in {len(found)} functions")
    for title, key in (("packages", package), ("functions with their instances", definition)):
        size_of, count = Counter(), Counter()
        for size, name in found:
            size_of[key(name)] += size
            count[key(name)] += 1
        table(title, size_of, count)
    print("== symbols")
    for size, name in sorted(found, reverse=True)[:ROWS]:
        print(f"{size:>10,} {name[:200]}")


main(*sys.argv[1:])
