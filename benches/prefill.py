#!/usr/bin/env python3
"""Long prompts beside streams: two replicas that do both, and one of them with the role of prefill, in turn.

    python benches/prefill.py MODEL.gguf [--long 400] [--gen 64] [--streams 2] [--requests 6] [--rounds 3] [--threads 1] [--record FILE]

A gateway and two replicas of `--threads` each, with a cache folder that they share, run on this machine. Clients of
`lamina bench --server` send short prompts with answers of `--gen` tokens, one after another, while another one sends prompts of
`--long` tokens. Told are milliseconds to the first token of the long ones, between the tokens of the streams, and tokens a second
of both. Nothing else should run. `lamina` is the command on the path, or `LAMINA`; files need a tokenizer (`with_vocab.py`).
"""

import argparse
import contextlib
import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import record
import serve

ROLES = {"mixed": ("mixed", "mixed"), "apart": ("mixed", "prefill")}


@contextlib.contextmanager
def replicas(model, roles, args):
    """The address of a gateway with replicas of these roles, while it runs."""
    http, join = serve.free_port(), serve.free_port()
    environment = {**os.environ, "LAMINA_APP_KEY": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory() as cache, contextlib.ExitStack() as stack:

        def started(*words):
            line = [serve.COMMAND, "serve", *map(str, words)]
            process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process, line

        gateway = started("--replicas-join", f"127.0.0.1:{join}", "--port", http)
        own = ["--threads", args.threads, "--context", args.long + args.gen + 64, "--cache-dir", cache]
        for role in roles:
            started(model, "--gateway", f"127.0.0.1:{join}", "--role", role, *own)
        url = f"http://127.0.0.1:{http}"
        serve.wait_for(url, *gateway)
        while len(json.loads(read(url + "/replicas"))) < len(roles):
            time.sleep(0.1)
        yield url


def read(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def moved(url):
    lines = read(url + "/metrics").decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "requests_moved" in line and 'why="prefilled"' in line)


def measured(url, args, number):
    """What streams and long prompts beside each other found."""
    with ThreadPoolExecutor(2) as pool:
        streams = pool.submit(serve.sent, url, [16], args.gen, number, "--clients", args.streams, "--requests", args.streams * args.requests)
        long = pool.submit(serve.sent, url, [args.long], args.gen // 2, 100 + number, "--clients", 1, "--requests", args.requests)
        streams, long = streams.result(), long.result()
    return {
        "long_ttft_p50": long["ttft_ms"]["p50"],
        "tbt_p50": streams["tbt_ms"]["p50"],
        "tbt_p99": streams["tbt_ms"]["p99"],
        "tok_s": streams["completion_tok_s"],
        "long_tok_s": long["completion_tok_s"],
        "moved": moved(url),
    }


def compared(args):
    rounds = []
    for number in range(args.rounds):
        order = list(ROLES.items())
        found = {}
        # Who goes first changes with each round.
        for name, roles in order if number % 2 == 0 else reversed(order):
            with replicas(args.model, roles, args) as url:
                found[name] = measured(url, args, number)
        rounds.append(found)
    same = {"model": Path(args.model).name, "long": args.long, "n": args.gen, "streams": args.streams, "threads": args.threads}
    kinds = rounds[0]["mixed"]
    return {**same, **{kind: {name: serve.summary([r[name][kind] for r in rounds]) for name in ROLES} for kind in kinds}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    for name, usual in (("long", 400), ("gen", 64), ("streams", 2), ("requests", 6), ("rounds", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--record", type=Path, help="file that the row is added to, one JSON object per line")
    args = parser.parse_args()
    row = compared(args)
    print(json.dumps(row), flush=True)
    if args.record:
        record.append(args.record, row)


if __name__ == "__main__":
    main()
