#!/usr/bin/env python3
"""A model on one machine, and in stages of ranks on the same machine over loopback, in turn.

    python benches/stages.py MODEL.gguf [--ranks 1] [--prompt 512] [--gen 16] [--rounds 5] [--record FILE]

Every process has one thread: as many cores as processes are needed, and nothing else should run. One token at a time can be
as fast as alone at best: what it lacks is the way there and back. Steps of many rows are computed by all at once. Beside
each ratio stands the one that `lamina plan --machines` foretells. The command is the one on the path, or `LAMINA`.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import threading

import record

COMMAND = os.environ.get("LAMINA", "lamina")


@contextlib.contextmanager
def ranks(model, count):
    """Addresses of ranks that wait for a leader."""
    args = [COMMAND, "rank", model, "--listen", "127.0.0.1:0", "--threads", "1"]
    running = [subprocess.Popen(args, stderr=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield [rank.stderr.readline().split()[-1] for rank in running]
    finally:
        for rank in running:
            threading.Thread(target=rank.stderr.read).start()
            rank.kill()


def speeds(args, *more):
    """Medians of tokens per second of a prompt and of decoding."""
    command = [COMMAND, "bench", args.model, "--json", "--repeat", "3"]
    found = subprocess.run(
        [*command, "--prompt", str(args.prompt), "--gen", str(args.gen), *more], capture_output=True, check=True
    )
    told = json.loads(found.stdout)
    return {kind: statistics.median(told[kind][0]["tok_s"]) for kind in ("prefill", "decode")}


def forecast(args):
    """Foretold ratios of stages to one machine."""
    command = [COMMAND, "plan", args.model, "--json", "--threads", "1", "--batch", "1", "--prompt", str(args.prompt)]
    more = ["--gen", str(args.gen), "--machines", str(args.ranks + 1), "--link", args.link]
    told = json.loads(subprocess.run([*command, *more], capture_output=True, check=True).stdout)
    staged = told["machines"][0]["stages"]
    return {kind: staged[kind][0]["tok_s"] / told["predict"][kind][0]["tok_s"] for kind in ("prefill", "decode")}


def spread(values):
    return {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for name, default in (("ranks", 1), ("prompt", 512), ("gen", 16), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--link", default="20us,3GB/s", help="what a message over loopback takes")
    parser.add_argument("--record")
    args = parser.parse_args()
    with ranks(args.model, args.ranks) as addresses:
        alone = ["--threads", "1"]
        staged = [*alone, "--stages", ",".join(addresses)]
        rounds = [(speeds(args, *alone), speeds(args, *staged)) for _ in range(args.rounds)]
    foretold = forecast(args)
    row = {"model": os.path.basename(args.model), "ranks": args.ranks, "prompt": args.prompt, "n": args.gen}
    for kind in ("prefill", "decode"):
        alone, staged = ([one[which][kind] for one in rounds] for which in (0, 1))
        ratios = [b / a for a, b in zip(alone, staged)]
        row[kind] = {"lamina": spread(staged), "alone": spread(alone), "ratio": spread(ratios), "forecast": round(foretold[kind], 3)}
    print(json.dumps(row))
    if args.record:
        record.append(args.record, row)


if __name__ == "__main__":
    main()
