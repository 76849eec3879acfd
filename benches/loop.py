#!/usr/bin/env python3
"""Keeps what a run of the tests took: units of the compiler from `cargo build --timings`, tests from nextest's JUnit file.

    python benches/loop.py --timings target/cargo-timings/cargo-timing.html --junit target/nextest/default/junit.xml --note before
"""

import argparse
import json
import re
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

from record import append

RECORD = Path(__file__).resolve().parent / "record" / "loop" / "times.jsonl"
# What is shorter is only counted.
SHORTEST_UNIT, SHORTEST_TEST = 2.0, 1.0


def units(page):
    """Names and seconds of the compiler's units, and the whole build's seconds."""
    text = page.read_text()
    all_units = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);", text, re.S)[1])
    ends = max(unit["start"] + unit["duration"] for unit in all_units)
    named = [(f"{unit['name']}{unit['target'] or ''}", unit["duration"]) for unit in all_units]
    return {"wall": round(ends), **table(named, SHORTEST_UNIT)}


def tests(file):
    """Names and seconds of tests, by binary and each."""
    cases = [(suite.get("name"), case.get("name"), float(case.get("time"))) for suite in xml.parse(file).getroot() for case in suite.iter("testcase")]
    binaries = Counter()
    for suite, _, seconds in cases:
        binaries[suite] += seconds
    by_binary = {name: round(seconds, 1) for name, seconds in binaries.most_common()}
    wall = round(float(xml.parse(file).getroot().get("time")))
    return {"wall": wall, **table([(f"{suite} {case}", s) for suite, case, s in cases], SHORTEST_TEST), "binaries": by_binary}


def table(named, shortest):
    longest = sorted(named, key=lambda entry: -entry[1])
    return {
        "count": len(named),
        "seconds": round(sum(seconds for _, seconds in named)),
        "longest": {name: round(seconds, 1) for name, seconds in longest if seconds >= shortest},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timings", type=Path)
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    row = {"note": options.note}
    if options.timings:
        row["build"] = units(options.timings)
    if options.junit:
        row["tests"] = tests(options.junit)
    append(RECORD, row)


main()
