#!/usr/bin/env python3
"""Lamina and llama.cpp on the same GGUF files, in turn, in one run.

    python benches/peers.py MODEL.gguf... [--prompt 512] [--gen 64] [--depth 0,4096] [--batch 1,8] [--kv f16]
                            [--rounds 5] [--threads 2] [--isa avx2] [--record FILE]

Each round measures one engine and then the other; ratios are taken round by round, so that what else the machine does
weighs on both. llama.cpp comes from `pip install llama-cpp-python` (built on this machine, so that it uses all of its
instructions), with flash attention. To compare on fewer, build it with `CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON
-DGGML_FMA=ON -DGGML_F16C=ON"` and name them with `--isa`. `lamina` is the command on the path, or `LAMINA`. Nothing else
should run. `compare.py` holds two records against each other.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import record

PEER = Path(__file__).with_name("peer_llama_cpp.py")
COMMAND = os.environ.get("LAMINA", "lamina")


class Peer:
    """llama.cpp in a process of its own, with the model loaded."""

    def __init__(self, model, args, depth, batch):
        config = dict(model=str(model), threads=args.threads, kv=args.kv, prompt=args.prompt, gen=args.gen, depth=depth, batch=batch)
        command = [sys.executable, str(PEER), json.dumps(config)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def round(self, seed):
        print(seed, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("llama.cpp ended: is llama-cpp-python installed, and does it know the model?")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(model, args, depth, batch):
    command = [COMMAND, "bench", str(model), "--prompt", args.prompt, "--gen", args.gen, "--depth", depth, "--batch", batch]
    command += ["--threads", args.threads, "--kv-dtype", args.kv, "--repeat", 1, "--json"]
    env = {**os.environ, **({"LAMINA_ISA": args.isa} if args.isa else {})}
    out = json.loads(subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, env=env).stdout)
    return {
        "prefill": out["prefill"][0]["tok_s"][-1],
        "decode": out["decode"][0]["tok_s"][-1],
        "share": out["decode_bandwidth_share"],
        "bandwidth": out["read_bandwidth_gb_s"],
        "rss": out["peak_rss_bytes"],
        "isa": out["isa"],
        "first_token_s": out["first_token_s"],
    }


def busy(share):
    """Another process that takes `share` of one core, in slices of 10 ms."""
    loop = f"""
import time
while True:
    end = time.perf_counter() + 0.01 * {share}
    while time.perf_counter() < end: pass
    time.sleep(0.01 * {1 - share})
"""
    return subprocess.Popen([sys.executable, "-c", loop])


def summary(values):
    return {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}


def measure(model, args, depth, batch):
    peer = Peer(model, args, depth, batch)
    peer.round(0)
    theirs, mine = [], []
    for seed in range(1, args.rounds + 1):
        theirs.append(peer.round(seed))
        mine.append(ours(model, args, depth, batch))
    peer.close()
    out = {"model": model.name, "depth": depth, "batch": batch, "kv": args.kv, "isa": mine[0]["isa"]}
    out["peer_instructions"] = theirs[0]["instructions"]
    for kind in ("prefill", "decode"):
        out[kind] = {
            "lamina": summary([m[kind] for m in mine]),
            "llama.cpp": summary([t[kind] for t in theirs]),
            "ratio": summary([m[kind] / t[kind] for m, t in zip(mine, theirs)]),
        }
    shares = [m["share"] for m in mine if m["share"]]
    out["decode_bandwidth_share"] = summary(shares) if shares and batch == 1 else None
    out["read_bandwidth_gb_s"] = summary([m["bandwidth"] for m in mine])
    out["file_bytes"], out["peak_rss_bytes"] = model.stat().st_size, mine[-1]["rss"]
    out["first_token_s"] = summary([m["first_token_s"] for m in mine])
    return out


def show(row):
    cells = [f"{row['model']:32} {row['isa']:8} kv {row['kv']:5} depth {row['depth']:5} batch {row['batch']:2}"]
    for kind in ("prefill", "decode"):
        r = row[kind]
        low, high = r["ratio"]["range"]
        cells.append(f"{kind} {r['lamina']['median']:7.1f} : {r['llama.cpp']['median']:6.1f} = {r['ratio']['median']:5.2f} [{low:.2f}, {high:.2f}]")
    if row["decode_bandwidth_share"]:
        cells.append(f"share {row['decode_bandwidth_share']['median']:.2f}")
    print("  ".join(cells), flush=True)


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    for name, default in (("prompt", 512), ("gen", 64), ("threads", os.cpu_count()), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--depth", type=numbers, default=[0])
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--kv", default="f16")
    parser.add_argument("--isa", help="restricts Lamina, such as avx2; llama.cpp keeps what it was built with")
    parser.add_argument("--busy", type=float, default=0, help="share of one core that another process takes meanwhile, such as 0.5")
    parser.add_argument("--record", type=Path, help="file that the rows are added to, one JSON object per line")
    args = parser.parse_args()
    other = busy(args.busy) if args.busy else None
    for model in args.models:
        for depth in args.depth:
            for batch in args.batch:
                row = measure(model, args, depth, batch)
                show(row)
                if args.record:
                    record.append(args.record, {"threads": args.threads, "busy": args.busy, **row}, peer=record.peer())
    if other:
        other.kill()


if __name__ == "__main__":
    main()
