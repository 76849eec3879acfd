#!/usr/bin/env python3
"""FlexGen's table: whole jobs of models that have less memory than they need, measured and predicted, beside llama.cpp.

    python benches/flexgen.py --opt 1.3b --folder DIR [--dtype q4_1] [--record benches/record/flexgen.jsonl]
    python benches/flexgen.py MODEL.gguf --folder DIR [--prompt 512] [--gen 32] [--batch 1,32,128] [--share 100,60,30]

A job is so many prompts and answers at once (FlexGen's figure: answer tokens / seconds of the whole job). 100 % is the memory
in which all of the model stays, for each batch, as `lamina plan` computes it; the budgets are shares of it. Each round runs
one engine and then the other, in a memory group of the budget where one can be made (see memory_group.py); where none can,
Lamina keeps its budget by itself, its peak is told, and llama.cpp is left out, because nothing would hold it to the same.

`--opt` makes an OPT checkpoint of random weights (125m, 1.3b, 2.7b, 6.7b, 13b). llama.cpp knows no OPT: its column is
empty there, unless `--peer-model` names a GGUF file of about as many bytes. Files are dropped from the page cache before each
run. `lamina` is the command on the path, or `LAMINA`. Nothing else should run.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import made_opt
import record
from memory_group import forget, memory_group

COMMAND = os.environ.get("LAMINA", "lamina")
# What a process takes beside what is counted.
PROCESS = 64 << 20
# Tokens beside prompt and answer that `lamina bench` keeps room for.
ROOM = 8 + 64
# Sequences of full length that Lamina's cache has room for, where memory is no matter.
FULL_SEQUENCES = 8


def call(command, group=None, timeout=None):
    """Output, errors, exit status and bytes read from disk of a command, in a group if there is one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    enter = group.enter if group else None
    try:
        done = subprocess.run(
            [str(c) for c in command], capture_output=True, text=True, preexec_fn=enter, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"took more than {timeout} s", 124, None
    read = 512 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before)
    return done.stdout, done.stderr, done.returncode, read


def shared_options(args, batch):
    options = ["--threads", args.threads, "--kv-dtype", args.kv, "--panel-cache", args.folder / "panels"]
    options += ["--dtype", args.dtype] if args.dtype else []
    # The cache has room for several sequences of the context's length: a large batch needs no longer context than this.
    return [*options, "--context", -(-batch // FULL_SEQUENCES) * (args.prompt + args.gen + ROOM)]


def whole_memory(model, args, batch):
    """Bytes in which all stays."""
    command = [COMMAND, "plan", model, *shared_options(args, batch), "--batch", batch, "--prompt", args.prompt]
    out, err, status, _ = call([*command, "--gen", args.gen, "--json"])
    if status != 0 and not out:
        raise SystemExit(f"lamina plan: {err.strip()}")
    return json.loads(out)["memory"]["total"] + PROCESS


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no word: it was killed"


def ours(model, args, batch, budget, group):
    command = [COMMAND, "bench", model, *shared_options(args, batch), "--throughput", "--repeat", 1, "--json"]
    command += ["--prompt", args.prompt, "--gen", args.gen, "--batch", batch, "--memory", budget]
    out, err, status, read = call(command, group, args.timeout)
    if status != 0:
        return {"failed": last_line(err)}
    told = json.loads(out)
    job = told["jobs"][0]
    return {
        "tok_s": job["tok_s"][0],
        "prefill_seconds": job["prefill_seconds"][0],
        "seconds": job["seconds"][0],
        "predicted": job["predicted"],
        "peak_rss_bytes": told["peak_rss_bytes"],
        "group_peak_bytes": group.peak() if group else None,
        "disk_bytes": read,
        "stream": told["stream"],
    }


def theirs(model, args, batch, share, group):
    job = {"model": str(model), "threads": args.threads, "kv": args.kv, "prompt": args.prompt, "gen": args.gen}
    job |= {"depth": 0, "batch": batch, "repack": share >= 100}
    out, err, status, read = call([sys.executable, __file__, "--peer-job", json.dumps(job)], group, args.timeout)
    if status != 0:
        return {"failed": last_line(err)}
    return {**json.loads(out.strip().splitlines()[-1]), "disk_bytes": read}


def peer_job(job):
    """The child that runs llama.cpp: one job, from its first prompt to its last token; the model is loaded before."""
    import random

    from peer_llama_cpp import Engine

    # A context has room for prompt and answer of every sequence.
    engine = Engine({**job, "depth": job["gen"]})
    source = random.Random(7)
    tokens = lambda n: [source.randrange(100, engine.vocab - 100) for _ in range(n)]
    begin = time.perf_counter()
    for seq in range(job["batch"]):
        engine.fill(seq, tokens(job["prompt"]))
    prefill = time.perf_counter() - begin
    for i in range(job["gen"] - 1):
        engine.run([(tokens(1)[0], job["prompt"] + i, seq) for seq in range(job["batch"])])
    seconds = time.perf_counter() - begin
    print(json.dumps({"tok_s": job["batch"] * job["gen"] / seconds, "prefill_seconds": prefill, "seconds": seconds}))


def median(rows, key):
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(values) if values else None


def measure(model, args, batch, share, whole):
    budget = whole * share // 100
    peer = args.peer_model or (model if model.suffix == ".gguf" else None)
    mine, others, grouped = [], [], False
    for _ in range(args.rounds):
        forget(model, args.folder / "panels")
        with memory_group(budget + PROCESS) as group:
            grouped = group is not None
            mine.append(ours(model, args, batch, budget, group))
        if peer and grouped and not args.alone:
            forget(peer)
            with memory_group(budget + PROCESS) as group:
                others.append(theirs(peer, args, batch, share, group))
    row = {"model": model.name, "dtype": args.dtype, "kv": args.kv, "prompt": args.prompt, "gen": args.gen, "batch": batch}
    row |= {"share": share, "memory_budget": budget, "memory_group": grouped, "threads": args.threads}
    row |= {key: median(mine, key) for key in ("tok_s", "predicted", "seconds", "prefill_seconds", "disk_bytes")}
    row |= {key: max((m.get(key) or 0 for m in mine), default=0) or None for key in ("peak_rss_bytes", "group_peak_bytes")}
    row["stream"] = next((m["stream"] for m in reversed(mine) if m.get("stream")), None)
    row["failed"] = next((m["failed"] for m in mine if "failed" in m), None)
    if others:
        row["peer_model"] = peer.name
        row["peer_tok_s"], row["peer_disk_bytes"] = median(others, "tok_s"), median(others, "disk_bytes")
        row["peer_failed"] = next((t["failed"] for t in others if "failed" in t), None)
    return row


def show(row):
    number = lambda v, digits=2: "-" if v is None else f"{v:.{digits}f}"
    giga = lambda v: "-" if v is None else f"{v / 2**30:.2f}"
    error = row["predicted"] and row["tok_s"] and 100 * (row["predicted"] / row["tok_s"] - 1)
    cells = [row["model"][:28].ljust(28), f"{row['share']:3} %", f"{giga(row['memory_budget']):>6} GiB", f"batch {row['batch']:3}"]
    cells += [f"{number(row['tok_s']):>8} tok/s", f"predicted {number(row['predicted']):>8} ({number(error, 0)} %)"]
    cells += [f"peak {giga(row['peak_rss_bytes'])} GiB", f"llama.cpp {number(row.get('peer_tok_s'))}"]
    cells += [text for text in (row["failed"], row.get("peer_failed")) if text]
    print("  ".join(cells), flush=True)


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--opt", action="append", default=[], choices=made_opt.SHAPES, help="makes a checkpoint of this shape")
    parser.add_argument("--layers", type=int, help="fewer layers than the shape has")
    parser.add_argument("--folder", type=Path, help="where checkpoints are made and panels are kept")
    for name, default in (("prompt", 512), ("gen", 32), ("threads", os.cpu_count()), ("rounds", 3), ("timeout", 3600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--batch", type=numbers, default=[1, 32, 128])
    parser.add_argument("--share", type=numbers, default=[100, 60, 30], help="percent of the memory in which all stays")
    parser.add_argument("--dtype", help="type of the weights, such as q4_1, which is FlexGen's compression in groups of 32")
    parser.add_argument("--kv", default="f16", help="type of the cache; q4_1 is FlexGen's compression")
    parser.add_argument("--peer-model", type=Path, help="GGUF file for llama.cpp, where it does not know the model")
    parser.add_argument("--alone", action="store_true", help="leaves llama.cpp out")
    parser.add_argument("--record", type=Path, help="file that the rows are added to, one JSON object per line")
    parser.add_argument("--peer-job", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer_job:
        return peer_job(args.peer_job)
    if not args.folder or not args.models and not args.opt:
        parser.error("name a model, or --opt, and --folder")
    cut = f"-{args.layers}" if args.layers else ""
    # One context holds all sequences, and OPT has a row for every position: single rows are read, so they cost no memory.
    positions = max(made_opt.POSITIONS, max(args.batch) * (args.prompt + args.gen + ROOM))
    made = [made_opt.write(args.folder / f"opt-{shape}{cut}", shape, args.layers, positions) for shape in args.opt]
    for model in [*args.models, *made]:
        for batch in args.batch:
            whole = whole_memory(model, args, batch)
            for share in args.share:
                row = measure(model, args, batch, share, whole)
                show(row)
                if args.record:
                    record.append(args.record, row, peer=record.peer() if "peer_tok_s" in row else None)


if __name__ == "__main__":
    main()
