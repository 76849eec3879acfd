#!/usr/bin/env python3
"""A model in stages and in shards over links of known time and rate, beside what `lamina plan --machines` foretells for them.

    python benches/throttled.py MODEL.gguf [--links 1ms,1GB/s 5ms,1GB/s 1ms,20MB/s] [--prompt 256] [--gen 16] [--rounds 3] [--record FILE]

A leader and one rank, with a thread each, speak through a relay that holds every byte back: bytes leave one after another at
the link's rate, and come as much later as a message takes. `found` is what `lamina plan --link HOST:PORT` measures through it.
Told are tokens a second of prompts and of decoding over those that were foretold, for one machine as well: the forecast of a link
is held against the bar of 15 % where that of one machine is right. Two cores at least, and nothing else should run. The
command is the one on the path, or `LAMINA`.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

import record
from stages import COMMAND, ranks, speeds, spread

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
WAYS = {"stages": "--stages", "shards": "--tp"}
KINDS = ("prefill", "decode")


def figures(link):
    """Seconds of a message and bytes a second of a link that is written as for `lamina plan`, such as 1ms,20MB/s."""
    parts = [re.fullmatch(r"([\d.]+)(\w+)", part).groups() for part in link.removesuffix("/s").split(",")]
    return [float(number) * UNITS[unit] for number, unit in parts]


def carry(source, target, seconds, rate):
    """Passes on what comes from one end of a connection, until it ends."""
    held = queue.SimpleQueue()

    def deliver():
        with contextlib.suppress(OSError):
            for due, data in iter(held.get, None):
                time.sleep(max(0.0, due - time.monotonic()))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    threading.Thread(target=deliver, daemon=True).start()
    free = 0.0
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            free = max(free, time.monotonic()) + len(data) / rate
            held.put((free + seconds, data))
    held.put(None)


def relay(address, link):
    """Prints the address at which the other end of `address` is reached over a link, and is that link until it is killed."""
    host, port = address.rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            near, _ = server.accept()
            far = socket.create_connection((host, int(port)))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=carry, args=(*ends, *figures(link)), daemon=True).start()


@contextlib.contextmanager
def linked(address, link):
    """An address behind a link of these figures."""
    process = subprocess.Popen([sys.executable, __file__, "--relay", address, link], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def plan(args, link):
    """What is foretold of two machines with this link between them."""
    command = [COMMAND, "plan", args.model, "--json", "--threads", "1", "--batch", "1", "--prompt", str(args.prompt)]
    more = ["--gen", str(args.gen), "--machines", "2", "--link", link]
    return json.loads(subprocess.run([*command, *more], capture_output=True, check=True).stdout)


def measured(args, address, link):
    """Rounds in turn, and the link as it was found between them."""
    rounds = []
    with linked(address, link) as behind:
        for _ in range(args.rounds):
            one = {"alone": speeds(args, "--threads", "1")}
            one |= {way: speeds(args, "--threads", "1", option, behind) for way, option in WAYS.items()}
            rounds.append(one)
        return rounds, plan(args, behind)["machines"][0]["link"]


def row_of(args, address, link):
    rounds, found = measured(args, address, link)
    told = plan(args, link)
    foretold = {"alone": told["predict"], **{way: told["machines"][0][way] for way in WAYS}}
    row = {"model": os.path.basename(args.model), "prompt": args.prompt, "n": args.gen, "link": link, "found": found}
    for way, speed in foretold.items():
        row[way] = {}
        for kind in KINDS:
            told, all_rounds = speed[kind][0]["tok_s"], [one[way][kind] for one in rounds]
            of_foretold = round(statistics.median(all_rounds) / told, 3)
            row[way][kind] = {"lamina": spread(all_rounds), "forecast": round(told, 3), "of_forecast": of_foretold}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for name, default in (("prompt", 256), ("gen", 16), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--links", nargs="+", default=["1ms,1GB/s", "5ms,1GB/s", "1ms,20MB/s"])
    parser.add_argument("--record")
    args = parser.parse_args()
    with ranks(args.model, 1) as (address,):
        for link in args.links:
            row = row_of(args, address, link)
            print(json.dumps(row), flush=True)
            if args.record:
                record.append(args.record, row)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--relay"]:
        relay(*sys.argv[2:])
    main()
