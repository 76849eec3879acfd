#!/usr/bin/env python3
"""Two records of speed or perplexity beside each other, row by row.

    python benches/compare.py BEFORE AFTER [--any-cpu] [--at-least 0.98] [--json]

BEFORE and AFTER name a record (`benches/record/peers.jsonl`), the rows of one commit in it (`peers.jsonl@1a2b3c4`), or a
commit that any record has (`1a2b3c4`). Of rows that measure the same, the last one counts. A ratio is AFTER by BEFORE;
its spread takes the slowest of one and the fastest of the other. Rows of different CPUs are not compared unless told to.
With --at-least, a median ratio of a speed below that number ends with exit code 1.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

RECORDS = Path(__file__).resolve().parent / "record"
# What tells rows apart, beside the figure's name; a missing one is None in both.
KEYS = ("model", "text", "context", "threads", "isa", "kv", "kv_dtype", "depth", "batch", "clients", "n", "busy", "dtype", "prompt", "gen", "share")


class Refused(Exception):
    """Records that cannot be compared."""


def lines(path):
    """The rows of a record, in their order."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: {error}") from None


def rows(name):
    """The rows that a name on the command line means."""
    path, _, commit = name.partition("@")
    files = [p for p in (Path(path), RECORDS / path) if p.is_file()][:1]
    if not files and not commit:
        files, commit = sorted(RECORDS.glob("*.jsonl")), name
    found = [row for file in files for row in lines(file) if (row.get("commit") or "").startswith(commit)]
    if not found:
        raise Refused(f"{name}: no record and no commit of one (commits: {', '.join(commits()) or 'none yet'})")
    return found


def commits():
    return sorted({row["commit"] for file in RECORDS.glob("*.jsonl") for row in lines(file) if row.get("commit")})


def figures(row):
    """What a row measured: name, what else tells it apart, and median, lowest and highest."""
    if "lamina" in row:
        yield "perplexity", {}, spread([row["lamina"]])
    for kind in ("prefill", "decode", "goodput", "tok_s", "encode"):
        measured = row.get(kind)
        if isinstance(measured, dict) and (one := measured["lamina"]):
            yield kind, {}, (one["median"], *one["range"])
        if isinstance(measured, float):
            yield kind, {}, spread([measured])
        for one in measured if isinstance(measured, list) else []:
            yield kind, {k: one.get(k) for k in ("n", "depth", "batch")}, spread(one["tok_s"])


def spread(values):
    return statistics.median(values), min(values), max(values)


def table(found):
    """Figures by their key; later rows replace earlier ones."""
    out = {}
    for row in found:
        for name, more, values in figures(row):
            place = {**row, **more}
            known = (place.get(k) for k in KEYS)
            # A bench of a server draws lengths from lists.
            out[(name, *(str(v) if isinstance(v, list) else v for v in known))] = values
    return out


def cpus(found):
    """CPUs of rows; older lines call them machine, and those of perplexity name none."""
    return {row.get("cpu") or row.get("machine") for row in found} - {None}


def compare(before, after, any_cpu=False):
    """Rows that both have: key, values of each, and the ratio's median, lowest and highest."""
    if cpus(before) and cpus(after) and cpus(before) != cpus(after) and not any_cpu:
        names = [", ".join(sorted(cpus(found))) for found in (before, after)]
        raise Refused(f"measured on different CPUs: {names[0]} and {names[1]}; --any-cpu compares them all the same")
    a, b = table(before), table(after)
    common = [key for key in a if key in b]
    if not common:
        raise Refused("no row measures the same in both: model, threads, instruction set, cache, depth and batch must agree")
    return [(key, a[key], b[key], ratio(a[key], b[key])) for key in common]


def ratio(a, b):
    return b[0] / a[0], b[1] / a[2], b[2] / a[1]


def show(found):
    for key, a, b, (median, low, high) in found:
        what = " ".join(f"{k}={v}" for k, v in zip(KEYS, key[1:]) if v is not None)
        print(f"{key[0]:10} {a[0]:10.3f} -> {b[0]:10.3f}  x {median:.3f} [{low:.3f}, {high:.3f}]  {what}")
    for name in sorted({key[0] for key, *_ in found}):
        ratios = [r[0] for key, *_, r in found if key[0] == name]
        middle, low, high = spread(ratios)
        print(f"{name}: median of {len(ratios)} rows x {middle:.3f}, from {low:.3f} to {high:.3f}")


def as_json(found):
    names = ("median", "low", "high")
    return [
        {"figure": key[0], **{k: v for k, v in zip(KEYS, key[1:]) if v is not None}, "before": a[0], "after": b[0], "ratio": dict(zip(names, r))}
        for key, a, b, r in found
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--any-cpu", action="store_true", help="compare rows of different CPUs")
    parser.add_argument("--at-least", type=float, metavar="RATIO", help="fail where a speed's ratio is below, such as 0.98")
    parser.add_argument("--json", action="store_true", help="write one JSON list")
    args = parser.parse_args()
    try:
        found = compare(rows(args.before), rows(args.after), args.any_cpu)
    except Refused as error:
        sys.exit(f"compare: {error}")
    print(json.dumps(as_json(found))) if args.json else show(found)
    slow = [key for key, *_, r in found if key[0] != "perplexity" and args.at_least and r[0] < args.at_least]
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
