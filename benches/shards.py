#!/usr/bin/env python3
"""A model in one process, and in shards of ranks on the same machine (tensor parallel), over loopback and in one process, in turn.

    python benches/shards.py MODEL.gguf [--ranks 1] [--prompt 512] [--gen 32] [--rounds 5] [--record FILE]

Ranks and their leader have one thread each: as many cores as processes are needed, and nothing else should run. Beside them
stand one process with one thread, and one with as many threads as there are processes, which shares memory where ranks
send or, inside one process, copy, and what `lamina plan --machines` foretells beside one process. The command is the one on the path, or `LAMINA`.
"""

import argparse
import json
import os
import subprocess

import record
from stages import COMMAND, ranks, speeds, spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for name, default in (("ranks", 1), ("prompt", 512), ("gen", 32), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--link", default="20us,3GB/s", help="what a message over loopback takes")
    parser.add_argument("--record")
    args = parser.parse_args()
    count = args.ranks + 1
    with ranks(args.model, args.ranks) as addresses:
        tp = ["--threads", "1", "--tp", ",".join(addresses)]
        inside = ["--threads", str(count), "--tp", str(count)]
        ways = {"sharded": tp, "inside": inside, "alone": ["--threads", "1"], "threads": ["--threads", str(count)]}
        rounds = [{name: speeds(args, *more) for name, more in ways.items()} for _ in range(args.rounds)]
    command = [COMMAND, "plan", args.model, "--json", "--threads", "1", "--batch", "1", "--prompt", str(args.prompt)]
    more = ["--gen", str(args.gen), "--machines", f"1,{count}", "--link", args.link]
    told = json.loads(subprocess.run([*command, *more], capture_output=True, check=True).stdout)
    one, several = (of["shards"] for of in told["machines"])
    row = {"model": os.path.basename(args.model), "ranks": count, "prompt": args.prompt, "n": args.gen}
    for kind in ("prefill", "decode"):
        of = {name: [one[name][kind] for one in rounds] for name in ways}
        ratio = {name: spread([b / a for a, b in zip(of[name], of["sharded"])]) for name in ("alone", "threads")}
        beside = {name: spread([b / a for a, b in zip(of[name], of["inside"])]) for name in ("alone", "threads")}
        foretold = several[kind][0]["tok_s"] / one[kind][0]["tok_s"]
        row[kind] = {"lamina": spread(of["sharded"]), "alone": spread(of["alone"]), "threads": spread(of["threads"]), "ratio": ratio, "inside": {"lamina": spread(of["inside"]), "ratio": beside}, "forecast": round(foretold, 3)}
    print(json.dumps(row))
    if args.record:
        record.append(args.record, row)


if __name__ == "__main__":
    main()
